/*
 * Fuzz target: the readers of the JSON of docs/wire.md. The first byte of the input chooses the reader; the rest is the text.
 */
#include "core/state_json.hpp"

#include <cstdint>

using namespace schemasync::state;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int
LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	if (size == 0)
		return 0;
	const std::string text(reinterpret_cast<const char *>(data) + 1, size - 1);
	switch (data[0] % 6) {
	case '0' % 6:
		(void) parse_relation(text);
		break;
	case '1' % 6:
		(void) parse_type(text);
		break;
	case '2' % 6:
		(void) parse_schema(text);
		break;
	case '3' % 6:
		(void) parse_state_message(text);
		break;
	case '4' % 6:
		(void) parse_ddl_message(text);
		break;
	default:
		(void) parse_rewrite_message(text);
	}
	return 0;
}
