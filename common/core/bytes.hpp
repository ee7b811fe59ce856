/*
 * A bounds-checked reader of big-endian data: the only place of the subscriber that counts bytes of the wire.
 *
 * A read past the end sets `failed` and returns zero or an empty view; the caller looks once, at the end of a
 * message, so that the hot path has no branch a field but the comparison itself.
 *
 * Zone: core.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/pure.hpp"

namespace schemasync::bytes {

class Reader {
public:
	explicit Reader(std::string_view input)
	    : begin_(input.data()), at_(input.data()), end_(input.data() + input.size())
	{
	}

	std::uint8_t
	u8()
	{
		return static_cast<std::uint8_t>(integer<1>());
	}
	std::uint16_t
	u16()
	{
		return static_cast<std::uint16_t>(integer<2>());
	}
	std::uint32_t
	u32()
	{
		return static_cast<std::uint32_t>(integer<4>());
	}
	std::uint64_t
	u64()
	{
		return integer<8>();
	}
	char
	letter()
	{
		return static_cast<char>(u8());
	}

	/* The next `length` bytes. */
	std::string_view
	view(std::size_t length)
	{
		if (length > remaining()) {
			fail();
			return {};
		}
		std::string_view result{at_, length};
		at_ += length;
		return result;
	}

	/* The bytes up to the next NUL, which is passed over. */
	std::string_view
	string()
	{
		const void *nul = remaining() == 0 ? nullptr : std::memchr(at_, 0, remaining());
		if (nul == nullptr) {
			fail();
			return {};
		}
		std::string_view result{at_, static_cast<std::size_t>(static_cast<const char *>(nul) - at_)};
		at_ += result.size() + 1;
		return result;
	}

	std::size_t
	remaining() const
	{
		return static_cast<std::size_t>(end_ - at_);
	}
	std::size_t
	offset() const
	{
		return failed_ ? failed_at_ : static_cast<std::size_t>(at_ - begin_);
	}
	bool
	failed() const
	{
		return failed_;
	}

private:
	template <std::size_t size>
	std::uint64_t
	integer()
	{
		if (size > remaining()) {
			fail();
			return 0;
		}
		std::uint64_t result = 0;
		for (std::size_t i = 0; i < size; i++)
			result = result << 8 | static_cast<unsigned char>(at_[i]);
		at_ += size;
		return result;
	}

	void
	fail()
	{
		if (!failed_)
			failed_at_ = static_cast<std::size_t>(at_ - begin_);
		failed_ = true;
		at_ = end_;
	}

	const char *begin_;
	const char *at_;
	const char *end_;
	std::size_t failed_at_ = 0;
	bool failed_ = false;
};

} // namespace schemasync::bytes
