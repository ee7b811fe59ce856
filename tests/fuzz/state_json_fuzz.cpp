/*
 * Fuzz target: the reader of states and messages. Whatever is taken must, written out again as it is stored,
 * be taken again.
 */
#include "core/state_json.hpp"

#include <cstdint>

using namespace schemasync::state;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

void
check(const Document<Relation> &document)
{
	if (!std::holds_alternative<Relation>(parse_relation(document.text)))
		__builtin_trap();
}

} // namespace

int
LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	std::string_view in(reinterpret_cast<const char *>(data), size);
	(void)parse_relation(in);
	(void)parse_type(in);
	(void)parse_schema(in);
	auto state = parse_state_message(in);
	if (auto *message = std::get_if<StateMessage>(&state))
		check(message->relation);
	auto ddl = parse_ddl_message(in);
	if (auto *message = std::get_if<DdlMessage>(&ddl))
		for (const auto &relation : message->relations)
			check(relation);
	auto rewrite = parse_rewrite_message(in);
	if (auto *message = std::get_if<RewriteMessage>(&rewrite))
		check(message->state);
	return 0;
}
