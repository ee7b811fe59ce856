#include "core/protocol.hpp"

#include "core/pure.hpp"

namespace schemasync::protocol {
namespace {

/* One reader a message, with the first thing found wrong beside what the byte reader itself finds. */
class MessageReader {
public:
	MessageReader(std::string_view in, bool in_stream, Scratch &scratch)
	    : in_(in), in_stream_(in_stream), scratch_(scratch)
	{
	}

	bool read(Message &message, WireError &error);

private:
	void body(Message &message);
	void changes(Message &message);
	void prepared(Message &message);
	void streamed(Message &message);

	void relation(Message &message);
	void update(Message &message);
	void deletion(Message &message);
	void truncate(Message &message);
	void logical_message(Message &message);
	std::span<const Value> row(std::array<Value, max_columns> &room);

	Lsn
	lsn()
	{
		return in_.u64();
	}
	Time
	time()
	{
		return static_cast<Time>(in_.u64());
	}
	Lsn
	valid_lsn(const char *what)
	{
		Lsn result = lsn();
		if (result == 0)
			reject(what);
		return result;
	}
	Xid
	valid_xid()
	{
		Xid result = in_.u32();
		if (result == 0)
			reject("transaction id is zero");
		return result;
	}
	void
	no_flags()
	{
		if (in_.u8() != 0)
			reject("unknown flags");
	}
	void
	reject(const char *what)
	{
		if (what_ == nullptr && !in_.failed()) {
			what_ = what;
			offset_ = in_.offset();
		}
	}

	bytes::Reader in_;
	bool in_stream_;
	Scratch &scratch_;
	const char *what_ = nullptr;
	std::size_t offset_ = 0;
};

bool
MessageReader::read(Message &message, WireError &error)
{
	message.kind = static_cast<Kind>(in_.letter());
	message.xid = 0;
	body(message);
	if (what_ == nullptr && in_.failed()) {
		what_ = "message is cut short";
		offset_ = in_.offset();
	}
	if (in_.remaining() != 0)
		reject("bytes are left over");
	if (what_ != nullptr) {
		error = {offset_, what_};
		return false;
	}
	return true;
}

void
MessageReader::body(Message &message)
{
	switch (message.kind) {
	case Kind::Begin: {
		Begin begin{};
		begin.final_lsn = valid_lsn("final LSN of a transaction is zero");
		begin.commit_time = time();
		begin.xid = in_.u32();
		message.body = begin;
		return;
	}
	case Kind::Commit: {
		Commit commit{};
		no_flags();
		commit.commit_lsn = lsn();
		commit.end_lsn = lsn();
		commit.commit_time = time();
		message.body = commit;
		return;
	}
	case Kind::Origin: {
		Origin origin{};
		origin.lsn = lsn();
		origin.name = in_.string();
		message.body = origin;
		return;
	}
	case Kind::Relation:
	case Kind::Type:
	case Kind::Insert:
	case Kind::Update:
	case Kind::Delete:
	case Kind::Truncate:
	case Kind::LogicalMessage:
		if (in_stream_)
			message.xid = valid_xid();
		return changes(message);
	case Kind::BeginPrepare:
	case Kind::Prepare:
	case Kind::StreamPrepare:
	case Kind::CommitPrepared:
	case Kind::RollbackPrepared:
		return prepared(message);
	case Kind::StreamStart:
	case Kind::StreamStop:
	case Kind::StreamCommit:
	case Kind::StreamAbort:
		return streamed(message);
	}
	reject("unknown kind of message");
}

void
MessageReader::changes(Message &message)
{
	switch (message.kind) {
	case Kind::Type: {
		Type type{};
		type.oid = in_.u32();
		type.schema = in_.string();
		type.name = in_.string();
		message.body = type;
		return;
	}
	case Kind::Insert: {
		Insert insert{};
		insert.relation = in_.u32();
		if (in_.letter() != 'N')
			reject("new row expected");
		insert.row = row(scratch_.new_row);
		message.body = insert;
		return;
	}
	case Kind::Relation:
		return relation(message);
	case Kind::Update:
		return update(message);
	case Kind::Delete:
		return deletion(message);
	case Kind::Truncate:
		return truncate(message);
	default:
		return logical_message(message);
	}
}

void
MessageReader::relation(Message &message)
{
	Relation relation{};
	relation.oid = in_.u32();
	relation.schema = in_.string();
	relation.name = in_.string();
	relation.replica_identity = in_.letter();
	std::size_t count = in_.u16();
	if (count > max_columns) {
		reject("too many columns");
		return;
	}
	for (std::size_t i = 0; i < count && !in_.failed(); i++) {
		RelationColumn &column = scratch_.columns[i];
		column.key = (in_.u8() & 1) != 0;
		column.name = in_.string();
		column.type = in_.u32();
		column.typmod = static_cast<std::int32_t>(in_.u32());
	}
	relation.columns = {scratch_.columns.data(), in_.failed() ? 0 : count};
	message.body = relation;
}

std::span<const Value>
MessageReader::row(std::array<Value, max_columns> &room)
{
	std::size_t count = in_.u16();
	if (count > max_columns) {
		reject("too many columns");
		return {};
	}
	for (std::size_t i = 0; i < count; i++) {
		Value &value = room[i];
		value = {nullptr, 0, in_.letter()};
		if (value.kind == 't' || value.kind == 'b') {
			std::uint32_t length = in_.u32();
			/* so that a length fits an int and a value the server's 1 GB */
			if (length > 0x3fffffff) {
				reject("length of a value is out of range");
				return {};
			}
			std::string_view data = in_.view(length);
			value.data = data.data();
			value.length = static_cast<std::int32_t>(data.size());
		} else if (value.kind != 'n' && value.kind != 'u') {
			reject("unknown kind of value");
			return {};
		}
		if (in_.failed())
			return {};
	}
	return {room.data(), count};
}

void
MessageReader::update(Message &message)
{
	Update update{};
	update.relation = in_.u32();
	char action = in_.letter();
	if (action == 'K' || action == 'O') {
		update.old_kind = action;
		update.old_row = row(scratch_.old_row);
		action = in_.letter();
	}
	if (action != 'N')
		reject("new row expected");
	else
		update.new_row = row(scratch_.new_row);
	message.body = update;
}

void
MessageReader::deletion(Message &message)
{
	Delete deletion{};
	deletion.relation = in_.u32();
	deletion.old_kind = in_.letter();
	if (deletion.old_kind != 'K' && deletion.old_kind != 'O')
		reject("old row expected");
	else
		deletion.old_row = row(scratch_.old_row);
	message.body = deletion;
}

void
MessageReader::truncate(Message &message)
{
	Truncate truncate{};
	truncate.count = in_.u32();
	std::uint8_t flags = in_.u8();
	if ((flags & ~3) != 0)
		reject("unknown flags");
	truncate.cascade = (flags & 1) != 0;
	truncate.restart_identity = (flags & 2) != 0;
	/* in 64 bits, so that a hostile count cannot wrap */
	if (std::uint64_t{truncate.count} * 4 > in_.remaining()) {
		reject("more relations announced than sent");
		truncate.count = 0;
	}
	truncate.oids = in_.view(std::size_t{truncate.count} * 4).data();
	message.body = truncate;
}

void
MessageReader::logical_message(Message &message)
{
	LogicalMessage result{};
	std::uint8_t flags = in_.u8();
	if ((flags & ~1) != 0)
		reject("unknown flags");
	result.transactional = (flags & 1) != 0;
	result.lsn = lsn();
	result.prefix = in_.string();
	result.content = in_.view(in_.u32());
	message.body = result;
}

void
MessageReader::prepared(Message &message)
{
	switch (message.kind) {
	case Kind::BeginPrepare: {
		BeginPrepare begin{};
		begin.prepare_lsn = valid_lsn("prepare LSN is zero");
		begin.end_lsn = valid_lsn("end LSN is zero");
		begin.prepare_time = time();
		begin.xid = in_.u32();
		begin.gid = in_.string();
		message.body = begin;
		return;
	}
	case Kind::CommitPrepared: {
		CommitPrepared commit{};
		no_flags();
		commit.commit_lsn = valid_lsn("commit LSN is zero");
		commit.end_lsn = valid_lsn("end LSN is zero");
		commit.commit_time = time();
		commit.xid = in_.u32();
		commit.gid = in_.string();
		message.body = commit;
		return;
	}
	case Kind::RollbackPrepared: {
		RollbackPrepared rollback{};
		no_flags();
		rollback.prepare_end_lsn = valid_lsn("prepare end LSN is zero");
		rollback.rollback_end_lsn = valid_lsn("rollback end LSN is zero");
		rollback.prepare_time = time();
		rollback.rollback_time = time();
		rollback.xid = in_.u32();
		rollback.gid = in_.string();
		message.body = rollback;
		return;
	}
	default: {
		Prepare prepare{};
		no_flags();
		prepare.prepare_lsn = valid_lsn("prepare LSN is zero");
		prepare.end_lsn = valid_lsn("end LSN is zero");
		prepare.prepare_time = time();
		prepare.xid = valid_xid();
		prepare.gid = in_.string();
		message.body = prepare;
	}
	}
}

void
MessageReader::streamed(Message &message)
{
	switch (message.kind) {
	case Kind::StreamStart: {
		StreamStart start{};
		start.xid = valid_xid();
		start.first_segment = in_.u8() == 1;
		message.body = start;
		return;
	}
	case Kind::StreamStop:
		message.body = StreamStop{};
		return;
	case Kind::StreamCommit: {
		StreamCommit commit{};
		commit.xid = valid_xid();
		no_flags();
		commit.commit_lsn = lsn();
		commit.end_lsn = lsn();
		commit.commit_time = time();
		message.body = commit;
		return;
	}
	default: {
		StreamAbort abort{};
		abort.xid = valid_xid();
		abort.subxid = valid_xid();
		/* the message does not say whether more follows, its length does */
		abort.has_abort_info = in_.remaining() != 0;
		if (abort.has_abort_info) {
			abort.abort_lsn = lsn();
			abort.abort_time = time();
		}
		message.body = abort;
	}
	}
}

void
put(StatusUpdate &out, std::size_t at, std::uint64_t value)
{
	for (std::size_t i = 0; i < 8; i++)
		out[at + i] = static_cast<char>(value >> (56 - 8 * i) & 0xff);
}

} // namespace

bool
parse(std::string_view in, bool in_stream, Scratch &scratch, Message &message, WireError &error)
{
	return MessageReader(in, in_stream, scratch).read(message, error);
}

bool
parse_frame(std::string_view copy_data, Frame &frame, WireError &error)
{
	bytes::Reader in(copy_data);
	char kind = in.letter();
	frame = {};
	if (kind == 'w') {
		frame.start_lsn = in.u64();
		frame.end_lsn = in.u64();
		frame.send_time = static_cast<Time>(in.u64());
		frame.payload = in.view(in.remaining());
	} else if (kind == 'k') {
		frame.keepalive = true;
		frame.end_lsn = in.u64();
		frame.send_time = static_cast<Time>(in.u64());
		frame.reply_requested = in.u8() != 0;
	} else {
		error = {0, "unknown kind of replication message"};
		return false;
	}
	if (in.failed()) {
		error = {in.offset(), "replication message is cut short"};
		return false;
	}
	return true;
}

StatusUpdate
status_update(Lsn written, Lsn flushed, Lsn applied, Time now, bool reply_requested)
{
	StatusUpdate out{};
	out[0] = 'r';
	put(out, 1, written);
	put(out, 9, flushed);
	put(out, 17, applied);
	put(out, 25, static_cast<std::uint64_t>(now));
	out[33] = reply_requested ? 1 : 0;
	return out;
}

} // namespace schemasync::protocol
