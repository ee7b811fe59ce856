#include "decoder/options.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pg/compat.hpp"

extern "C" {
#include "commands/defrem.h"
#include "nodes/pg_list.h"
#include "replication/logical.h"
#include "utils/builtins.h"
#include "utils/varlena.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

/* One bit for each option that was met, to refuse the second mention. */
enum Given : unsigned {
	given_proto_version = 1u << 0,
	given_publication_names = 1u << 1,
	given_binary = 1u << 2,
	given_messages = 1u << 3,
	given_streaming = 1u << 4,
	given_two_phase = 1u << 5,
	given_origin = 1u << 6,
	given_schemasync = 1u << 7,
	given_rewrites = 1u << 8,
	given_relations = 1u << 9,
};

void
note_given(unsigned &given, Given option)
{
	if (given & option)
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR), errmsg("conflicting or redundant options")));
	given |= option;
}

std::uint32_t
read_protocol_version(const char *text)
{
	char *end;

	errno = 0;
	unsigned long parsed = strtoul(text, &end, 10);
	/* minor releases of late 2026 refuse the empty text, too; those before read it as 0, which is refused as
	 * well */
	if (end == text || errno != 0 || *end != '\0')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid proto_version")));
	if (parsed > PG_UINT32_MAX)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("proto_version \"%s\" out of range", text)));
	return static_cast<std::uint32_t>(parsed);
}

List *
read_publication_names(const char *text)
{
	List *names;

	/* SplitIdentifierString writes into its input */
	if (!SplitIdentifierString(pstrdup(text), ',', &names))
		ereport(ERROR, (errcode(ERRCODE_INVALID_NAME), errmsg("invalid publication_names syntax")));
	return names;
}

Streaming
read_streaming(DefElem *element)
{
	switch (pg::compat::read_streaming_mode(element)) {
	case 't':
		return Streaming::On;
	case 'p':
		return Streaming::Parallel;
	default:
		return Streaming::Off;
	}
}

bool
read_origin_none(DefElem *element)
{
	char *origin = defGetString(element);

	if (pg_strcasecmp(origin, "none") == 0)
		return true;
	if (pg_strcasecmp(origin, "any") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("unrecognized origin value: \"%s\"", origin)));
	return false;
}

/* A boolean, for which 1 and 0 may stand as well. */
bool
read_switch(DefElem *element)
{
	char *value = defGetString(element);

	if (strcmp(value, "1") == 0)
		return true;
	if (strcmp(value, "0") == 0)
		return false;
	return defGetBoolean(element);
}

Rewrites
read_rewrites(DefElem *element)
{
	char *value = defGetString(element);

	if (strcmp(value, "carry") == 0)
		return Rewrites::Carry;
	if (strcmp(value, "refuse") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("unrecognized rewrites value: \"%s\"", value),
		                errhint("Known values are \"refuse\" and \"carry\".")));
	return Rewrites::Refuse;
}

List *
read_relations(DefElem *element)
{
	List *oids = NIL;

	for (const char *at = defGetString(element); *at != '\0';) {
		char *end = nullptr;
		errno = 0;
		unsigned long parsed = strtoul(at, &end, 10);
		if (end == at || errno != 0 || parsed == 0 || parsed > PG_UINT32_MAX || (*end != ',' && *end != '\0'))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			                errmsg("invalid list of relations: \"%s\"", defGetString(element))));
		oids = lappend_oid(oids, static_cast<Oid>(parsed));
		at = *end == ',' ? end + 1 : end;
	}
	return oids;
}

void
read_option(DefElem *element, Options &options, unsigned &given)
{
	const char *name = element->defname;

	if (strcmp(name, "proto_version") == 0) {
		note_given(given, given_proto_version);
		options.protocol_version = read_protocol_version(strVal(element->arg));
	} else if (strcmp(name, "publication_names") == 0) {
		note_given(given, given_publication_names);
		options.publication_names = read_publication_names(strVal(element->arg));
	} else if (strcmp(name, "binary") == 0) {
		note_given(given, given_binary);
		options.binary = defGetBoolean(element);
	} else if (strcmp(name, "messages") == 0) {
		note_given(given, given_messages);
		options.messages = defGetBoolean(element);
	} else if (strcmp(name, "streaming") == 0) {
		note_given(given, given_streaming);
		options.streaming = read_streaming(element);
	} else if (strcmp(name, "two_phase") == 0) {
		note_given(given, given_two_phase);
		options.two_phase = defGetBoolean(element);
	} else if ((pg::compat::has_origin_option || options.schemasync) && strcmp(name, "origin") == 0) {
		/* pgoutput of 15 has no such option; a subscriber of schemasync has it, and names itself before */
		note_given(given, given_origin);
		options.origin_none = read_origin_none(element);
	} else if (strcmp(name, "schemasync") == 0) {
		note_given(given, given_schemasync);
		options.schemasync = read_switch(element);
	} else if (strcmp(name, "rewrites") == 0) {
		note_given(given, given_rewrites);
		options.rewrites = read_rewrites(element);
	} else if (strcmp(name, "relations") == 0) {
		note_given(given, given_relations);
		options.relations = read_relations(element);
	} else
		elog(ERROR, "unrecognized pgoutput option: %s", name);
}

void
require_option(unsigned given, Given option, const char *name)
{
	if (!(given & option))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("option \"%s\" missing", name)));
}

void
check_protocol_version(const Options &options)
{
	/* the texts changed with 16, and these messages are compared by clients' tests */
	if (options.protocol_version > pg::compat::protocol_max)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		                errmsg(pg::compat::text_protocol_too_new, options.protocol_version,
		                       pg::compat::protocol_max)));
	if (options.protocol_version < wire::protocol_min)
		ereport(ERROR,
		        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		         errmsg(pg::compat::text_protocol_too_old, options.protocol_version, wire::protocol_min)));
}

void
settle_streaming(const Options &options, LogicalDecodingContext *ctx)
{
	if (options.streaming == Streaming::Off) {
		ctx->streaming = false;
		return;
	}
	if (options.streaming == Streaming::On && options.protocol_version < wire::protocol_streaming)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("requested proto_version=%d does not support streaming, need %d or higher",
		                       options.protocol_version, wire::protocol_streaming)));
	if (options.streaming == Streaming::Parallel && options.protocol_version < wire::protocol_parallel)
		ereport(ERROR,
		        (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		         errmsg("requested proto_version=%d does not support parallel streaming, need %d or higher",
		                options.protocol_version, wire::protocol_parallel)));
	if (!ctx->streaming)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("streaming requested, but not supported by output plugin")));
}

void
settle_two_phase(const Options &options, LogicalDecodingContext *ctx)
{
	if (!options.two_phase) {
		ctx->twophase_opt_given = false;
		return;
	}
	if (options.protocol_version < wire::protocol_two_phase)
		ereport(ERROR,
		        (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		         errmsg("requested proto_version=%d does not support two-phase commit, need %d or higher",
		                options.protocol_version, wire::protocol_two_phase)));
	if (!ctx->twophase)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("two-phase commit requested, but not supported by output plugin")));
	/* whether it takes effect is decided by the slot, at a later point */
	ctx->twophase_opt_given = true;
}

} // namespace

Options
read_options(LogicalDecodingContext *ctx)
{
	Options options;
	unsigned given = 0;
	ListCell *cell;

	foreach (cell, ctx->output_plugin_options)
		read_option(static_cast<DefElem *>(lfirst(cell)), options, given);

	if (pg::compat::requires_options_by_name) {
		require_option(given, given_proto_version, "proto_version");
		require_option(given, given_publication_names, "publication_names");
	}
	check_protocol_version(options);
	if (!pg::compat::requires_options_by_name && list_length(options.publication_names) < 1)
		ereport(ERROR,
		        (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("publication_names parameter missing")));
	settle_streaming(options, ctx);
	settle_two_phase(options, ctx);
	if ((given & (given_rewrites | given_relations)) && !options.schemasync)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("option \"%s\" needs option \"schemasync\"",
		                       (given & given_rewrites) ? "rewrites" : "relations")));
	return options;
}

} // namespace schemasync::decoder
