#include "pg/catalog/catalog.hpp"

extern "C" {
#include "utils/guc.h"
}

namespace schemasync::pg::catalog {

namespace {

struct Setting {
	const char *name;
	const char *value;
};

constexpr Setting pinned[] = {
    /* everything outside of pg_catalog comes out qualified, whatever lies in pg_temp */
    {"search_path", "pg_catalog, pg_temp"},
    {"DateStyle", "ISO, YMD"},
    {"IntervalStyle", "postgres"},
    {"TimeZone", "UTC"},
    {"extra_float_digits", "3"},
    {"bytea_output", "hex"},
    {"lc_monetary", "C"},
    {"quote_all_identifiers", "off"},
    {"standard_conforming_strings", "on"},
};

} // namespace

// ---- leaves: may ereport; plain data only ----

int
begin_pinned_settings()
{
	int nest_level = NewGUCNestLevel();

	for (const Setting &setting : pinned)
		set_config_option(setting.name, setting.value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nest_level;
}

void
end_pinned_settings(int nest_level)
{
	AtEOXact_GUC(false, nest_level);
}

} // namespace schemasync::pg::catalog
