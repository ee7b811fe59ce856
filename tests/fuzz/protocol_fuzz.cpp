/*
 * Fuzz target: the message reader. The first byte of the input says whether the message comes inside a stream block (odd)
 * and whether it is a whole CopyData frame (bit 1); the rest is the message.
 *
 * Every view that comes out is read to its end, so that one which reaches beyond the input is found.
 */
#include "core/protocol.hpp"

#include <memory>
#include <string>
#include <type_traits>

using namespace schemasync::protocol;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

volatile unsigned sink; /* what is read must not be optimised away */

void
read(std::string_view text)
{
	unsigned sum = 0;
	for (char c : text)
		sum += static_cast<unsigned char>(c);
	sink = sum;
}

void
read(std::span<const Value> row)
{
	for (const Value &value : row)
		if (!value.is_null() && !value.is_unchanged())
			read(value.view());
}

template <typename T>
void
read_body(const T &body)
{
	if constexpr (requires { body.schema; })
		read(body.schema);
	if constexpr (requires { body.name; })
		read(body.name);
	if constexpr (requires { body.gid; })
		read(body.gid);
	if constexpr (requires { body.prefix; }) {
		read(body.prefix);
		read(body.content);
	}
	if constexpr (requires { body.row; })
		read(body.row);
	if constexpr (requires { body.old_row; })
		read(body.old_row);
	if constexpr (requires { body.new_row; })
		read(body.new_row);
	if constexpr (requires { body.columns; })
		for (const RelationColumn &column : body.columns)
			read(column.name);
	if constexpr (std::is_same_v<T, Truncate>)
		for (std::uint32_t i = 0; i < body.count; i++)
			sink = body.relation(i);
}

} // namespace

int
LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	static const auto scratch = std::make_unique<Scratch>();
	if (size == 0)
		return 0;
	/* a copy of its own size, so that the sanitizer knows where it ends */
	const std::string input(reinterpret_cast<const char *>(data) + 1, size - 1);
	std::string_view in = input;
	Message message;
	WireError error{};
	Frame frame{};

	if ((data[0] & 2) != 0) {
		if (!parse_frame(in, frame, error) || frame.keepalive)
			return 0;
		in = frame.payload;
	}
	if (parse(in, (data[0] & 1) != 0, *scratch, message, error))
		std::visit([](const auto &body) { read_body(body); }, message.body);
	else if (error.offset > in.size() || error.what == nullptr)
		__builtin_trap();
	return 0;
}
