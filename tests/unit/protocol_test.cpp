/*
 * The message reader: every kind of message, every truncation of it, and damaged input.
 */
#include "core/protocol.hpp"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace schemasync::protocol;

class Writer {
public:
	Writer &
	letter(char c)
	{
		return text_ += c, *this;
	}
	Writer &
	u8(unsigned v)
	{
		return number(v, 1);
	}
	Writer &
	u16(unsigned v)
	{
		return number(v, 2);
	}
	Writer &
	u32(unsigned long v)
	{
		return number(v, 4);
	}
	Writer &
	u64(unsigned long v)
	{
		return number(v, 8);
	}
	Writer &
	string(const std::string &s)
	{
		return text_.append(s.c_str(), s.size() + 1), *this;
	}
	Writer &
	bytes(const std::string &s)
	{
		return text_ += s, *this;
	}
	Writer &
	value(const std::string &s)
	{
		return letter('t').u32(s.size()).bytes(s);
	}
	const std::string &
	text() const
	{
		return text_;
	}

private:
	Writer &
	number(unsigned long v, int size)
	{
		for (int i = size - 1; i >= 0; i--)
			text_ += static_cast<char>(v >> (8 * i) & 0xff);
		return *this;
	}
	std::string text_;
};

struct Sample {
	const char *name;
	std::string text;
	bool in_stream = false;
};

std::vector<Sample>
samples()
{
	std::vector<Sample> all;
	all.push_back({"begin", Writer().letter('B').u64(100).u64(5).u32(7).text()});
	all.push_back({"commit", Writer().letter('C').u8(0).u64(100).u64(200).u64(5).text()});
	all.push_back({"origin", Writer().letter('O').u64(100).string("elsewhere").text()});
	all.push_back({"relation", Writer()
	                               .letter('R')
	                               .u32(1)
	                               .string("public")
	                               .string("t")
	                               .letter('d')
	                               .u16(2)
	                               .u8(1)
	                               .string("id")
	                               .u32(23)
	                               .u32(0xffffffff)
	                               .u8(0)
	                               .string("v")
	                               .u32(1043)
	                               .u32(14)
	                               .text()});
	all.push_back({"type", Writer().letter('Y').u32(9).string("public").string("mood").text()});
	all.push_back({"insert", Writer()
	                             .letter('I')
	                             .u32(1)
	                             .letter('N')
	                             .u16(3)
	                             .value("1")
	                             .letter('n')
	                             .letter('b')
	                             .u32(2)
	                             .bytes(std::string("\0x", 2))
	                             .text()});
	all.push_back({"update", Writer()
	                             .letter('U')
	                             .u32(1)
	                             .letter('K')
	                             .u16(1)
	                             .value("1")
	                             .letter('N')
	                             .u16(2)
	                             .value("2")
	                             .letter('u')
	                             .text()});
	all.push_back({"update_bare", Writer().letter('U').u32(1).letter('N').u16(1).value("2").text()});
	all.push_back({"delete", Writer().letter('D').u32(1).letter('O').u16(2).value("2").letter('n').text()});
	all.push_back({"truncate", Writer().letter('T').u32(2).u8(3).u32(11).u32(12).text()});
	all.push_back(
	    {"message", Writer().letter('M').u8(1).u64(77).string("schemasync.state").u32(2).bytes("{}").text()});
	all.push_back({"begin_prepare", Writer().letter('b').u64(1).u64(2).u64(3).u32(4).string("gid").text()});
	all.push_back({"prepare", Writer().letter('P').u8(0).u64(1).u64(2).u64(3).u32(4).string("gid").text()});
	all.push_back(
	    {"commit_prepared", Writer().letter('K').u8(0).u64(1).u64(2).u64(3).u32(4).string("gid").text()});
	all.push_back({"rollback_prepared",
	               Writer().letter('r').u8(0).u64(1).u64(2).u64(3).u64(5).u32(4).string("g").text()});
	all.push_back({"stream_start", Writer().letter('S').u32(5).u8(1).text()});
	all.push_back({"stream_stop", Writer().letter('E').text(), true});
	all.push_back({"stream_commit", Writer().letter('c').u32(5).u8(0).u64(1).u64(2).u64(3).text()});
	all.push_back({"stream_abort_parallel", Writer().letter('A').u32(5).u32(6).u64(1).u64(2).text()});
	all.push_back(
	    {"stream_prepare", Writer().letter('p').u8(0).u64(1).u64(2).u64(3).u32(4).string("gid").text()});
	all.push_back({"insert_in_stream", Writer().letter('I').u32(42).u32(1).letter('N').u16(0).text(), true});
	return all;
}

class Protocol : public testing::Test {
protected:
	bool
	parse(std::string_view in, bool in_stream = false)
	{
		return schemasync::protocol::parse(in, in_stream, *scratch, message, error);
	}
	template <typename Body>
	const Body &
	as()
	{
		return std::get<Body>(message.body);
	}

	std::unique_ptr<Scratch> scratch = std::make_unique<Scratch>();
	Message message{};
	WireError error{};
};

TEST_F(Protocol, ReadsEveryKind)
{
	for (const Sample &sample : samples())
		EXPECT_TRUE(parse(sample.text, sample.in_stream))
		    << sample.name << ": " << error.what << " at " << error.offset;
}

TEST_F(Protocol, RefusesEveryTruncationAndEveryExcess)
{
	for (const Sample &sample : samples()) {
		for (std::size_t length = 0; length < sample.text.size(); length++) {
			/* a heap copy of just that length, so that the sanitizer sees a read past it */
			std::vector<char> part(sample.text.begin(), sample.text.begin() + static_cast<long>(length));
			bool whole =
			    length == 9 && sample.text[0] == 'A'; /* what a StreamAbort of protocol 2 looks like */
			EXPECT_EQ(parse({part.data(), part.size()}, sample.in_stream), whole)
			    << sample.name << " cut at " << length;
			if (!whole) {
				EXPECT_LE(error.offset, length);
			}
		}
		EXPECT_FALSE(parse(sample.text + 'x', sample.in_stream)) << sample.name;
	}
}

TEST_F(Protocol, GivesTheFields)
{
	const std::vector<Sample> all = samples();
	ASSERT_TRUE(parse(all[3].text));
	EXPECT_EQ(message.kind, Kind::Relation);
	const auto &relation = as<Relation>();
	EXPECT_EQ(relation.schema, "public");
	EXPECT_EQ(relation.name, "t");
	EXPECT_EQ(relation.replica_identity, 'd');
	ASSERT_EQ(relation.columns.size(), 2u);
	EXPECT_TRUE(relation.columns[0].key);
	EXPECT_EQ(relation.columns[0].typmod, -1);
	EXPECT_EQ(relation.columns[1].name, "v");
	EXPECT_EQ(relation.columns[1].type, 1043u);

	ASSERT_TRUE(parse(all[5].text));
	const auto &insert = as<Insert>();
	ASSERT_EQ(insert.row.size(), 3u);
	EXPECT_EQ(insert.row[0].view(), "1");
	EXPECT_TRUE(insert.row[1].is_null());
	EXPECT_EQ(insert.row[2].kind, 'b');
	EXPECT_EQ(insert.row[2].view(), std::string_view("\0x", 2));

	ASSERT_TRUE(parse(all[6].text));
	const auto &update = as<Update>();
	EXPECT_EQ(update.old_kind, 'K');
	EXPECT_EQ(update.old_row[0].view(), "1");
	EXPECT_TRUE(update.new_row[1].is_unchanged());

	ASSERT_TRUE(parse(all[9].text));
	const auto &truncate = as<Truncate>();
	EXPECT_TRUE(truncate.cascade && truncate.restart_identity);
	EXPECT_EQ(truncate.relation(0), 11u);
	EXPECT_EQ(truncate.relation(1), 12u);

	ASSERT_TRUE(parse(all[20].text, true));
	EXPECT_EQ(message.xid, 42u);
	EXPECT_TRUE(as<Insert>().row.empty());
}

TEST_F(Protocol, RefusesHostileCounts)
{
	EXPECT_FALSE(parse(Writer().letter('T').u32(0x40000001).u8(0).u32(1).text()));
	EXPECT_FALSE(parse(Writer().letter('I').u32(1).letter('N').u16(65535).text()));
	EXPECT_STREQ(error.what, "too many columns");
	EXPECT_FALSE(parse(Writer().letter('R').u32(1).string("s").string("t").letter('d').u16(1665).text()));
	EXPECT_FALSE(parse(Writer().letter('I').u32(1).letter('N').u16(1).letter('t').u32(0xffffffff).text()));
	EXPECT_FALSE(parse(Writer().letter('M').u8(1).u64(1).string("p").u32(0xfffffff0).text()));
	EXPECT_FALSE(parse(Writer().letter('Z').text()));
	EXPECT_STREQ(error.what, "unknown kind of message");
	EXPECT_FALSE(parse(""));
}

TEST_F(Protocol, SurvivesDamage)
{
	std::mt19937 random(1);
	for (const Sample &sample : samples())
		for (int round = 0; round < 2000; round++) {
			std::string text = sample.text;
			for (auto flips = 1 + random() % 3; flips > 0; flips--)
				text[random() % text.size()] = static_cast<char>(random());
			std::vector<char> exact(text.begin(), text.end());
			if (!parse({exact.data(), exact.size()}, random() % 2 == 0)) {
				EXPECT_LE(error.offset, exact.size());
			}
		}
}

TEST_F(Protocol, ReadsFrames)
{
	Frame frame{};
	ASSERT_TRUE(parse_frame(Writer().letter('w').u64(1).u64(2).u64(3).bytes("payload").text(), frame, error));
	EXPECT_FALSE(frame.keepalive);
	EXPECT_EQ(frame.start_lsn, 1u);
	ASSERT_TRUE(parse_frame(Writer().letter('k').u64(9).u64(3).u8(1).text(), frame, error));
	EXPECT_TRUE(frame.keepalive && frame.reply_requested);
	EXPECT_EQ(frame.end_lsn, 9u);
	EXPECT_FALSE(parse_frame("w", frame, error));
	EXPECT_FALSE(parse_frame("", frame, error));
	StatusUpdate reply = status_update(1, 2, 3, 4, true);
	EXPECT_EQ(std::string(reply.data(), reply.size()),
	          Writer().letter('r').u64(1).u64(2).u64(3).u64(4).u8(1).text());
}

} // namespace
