"""What a publisher may lie: changes of single protocol messages on their way to the subscriber, drawn from a seed.

lie(random, kind, payload, place) -> (what was done, [(kind, payload), ...]) or None when there is nothing to lie about in it.
kind is the letter of the protocol message (b'd' CopyData, b'D' DataRow, ...), payload what follows its length.
"""
import json
import struct

# what is put where SQL, a name or a value is expected; each would leave a trace that run.py looks for
SQL = (
    "1); DROP TABLE canary; --", "1; CREATE ROLE evil SUPERUSER; --", "'); DROP TABLE public.canary; --", "int); CREATE TABLE evil (i int); --",
    "pg_catalog.pg_read_file('/etc/passwd')", "pg_catalog.set_config('schemasync.evil', 'x', false)", "pg_catalog.lo_from_bytea(0, 'evil')",
    "(SELECT 1 FROM public.canary)", "public.spring()", "COALESCE(public.spring(), 1)", "$$; DROP TABLE canary; $$", "$a$ $a$; SELECT public.spring()",
    "int4 DEFAULT public.spring()", "CHECK (public.spring() > 0)", "CHECK (true) NOT VALID, DROP COLUMN id", "FOR VALUES IN (public.spring())",
    "CREATE INDEX i ON public.t (id); DROP TABLE canary", "CREATE UNIQUE INDEX canary_i ON public.canary (v)", "CREATE INDEX evil ON public.t ((public.spring()))",
    "\\'; DROP TABLE canary; --", "/* */ DROP TABLE canary /*", "pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())",
    "pg_catalog.query_to_xml('SELECT public.spring()', true, true, '')", "FOREIGN KEY (id) REFERENCES public.canary (id)",
    "EXCLUDE USING btree (id WITH =) WHERE (public.spring() > 0)", "text COLLATE \"C\" STORAGE plain", "LIST (public.spring())",
    "int[][]; SELECT 1", "x'; SELECT public.spring(); --", "random()", "now()", "canary.v", "")
NAMES = ("pg_catalog", "schemasync", "information_schema", "pg_toast", "subscription", "relation", "capture_key", "pg_class", "pg_authid", "canary",
         "canary_schema", "\"; DROP TABLE canary; --", "a\"b", "$$", "$1", "x" * 63, "x" * 64, "x" * 200000, "\u00e4\u00f6\U0001f600", "", "public", "t", "id",
         "select", "pg_temp", "nowhere", "postgres", "'; SELECT public.spring(); --", "%s%n%d", "line\nbreak", "\u0000x")
NUMBERS = (0, 1, -1, 2, 7, 10, 11, 16, 255, 1247, 1259, 2249, 2276, 16384, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -2**63, 1e308, 0.5)
LETTERS = ("r", "p", "v", "m", "f", "i", "t", "u", "n", "d", "a", "s", "e", "c", "x", "b", "zz", "\u00e4", " ")


# --- JSON

def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, path + (i,))


def lie_value(random, key, old):
    if isinstance(old, bool):
        return random.choice((not old, None, 1, "true"))
    if isinstance(old, (int, float)):
        return random.choice((*NUMBERS, old + 1, old - 1, "x", None))
    if isinstance(old, str):
        if len(old) == 1:
            return random.choice((*LETTERS, "", None, 7))
        if key in ("name", "schema", "identity", "owner", "label", "type"):
            return random.choice((*NAMES, *SQL[:4], None))
        if key in ("sql", "definition", "default", "partition_key", "partition_bound", "collation", "missing", "expr"):
            return random.choice(SQL)
        return random.choice((*SQL, *NAMES, None, 5, {}, []))
    if isinstance(old, dict):
        return random.choice((None, {}, [], "x", {"sql": random.choice(SQL), "volatility": "i", "refs": []}))
    if isinstance(old, list):
        return random.choice((None, {}, [], old * 2, old[::-1], old[1:], old * 500 if len(json.dumps(old)) < 2000 else old[:1], [None], ["x"]))
    return random.choice((0, "x", {}, [], {"sql": random.choice(SQL), "volatility": "i"}))


def lie_json(random, text):
    try:
        value = json.loads(text)
    except ValueError:
        return "json cut", text[:random.randrange(len(text) + 1)]
    if random.random() < 0.06:
        return "json text", random.choice((text[:len(text) // 2], text + "x", "", "[" * 100000, "null", "{}", text.replace('"', "'"), '{"v":1}', text * 2,
                                           text.replace('"v":1', '"v":99')))
    said = []
    for _ in range(1 if random.random() < 0.7 else random.randrange(2, 5)):
        # (fields that few have are as interesting as those that all have: by key first)
        by_key = {}
        for path in places(value):
            if path:
                by_key.setdefault(path[-1] if isinstance(path[-1], str) else "[]", []).append(path)
        path = random.choice(by_key[random.choice(sorted(by_key))])
        parent = value
        for step in path[:-1]:
            parent = parent[step]
        if random.random() < 0.12 and isinstance(parent, dict):
            del parent[path[-1]]
            said.append("without " + ".".join(map(str, path)))
            continue
        new = lie_value(random, path[-1], parent[path[-1]])
        said.append("%s: %.60r -> %.60r" % (".".join(map(str, path)), parent[path[-1]], new))
        parent[path[-1]] = new
        if not isinstance(value, dict):
            break
    try:
        return "json " + "; ".join(said), json.dumps(value, ensure_ascii=random.random() < 0.5)
    except (ValueError, TypeError):
        return None


# --- bytes

def lie_bytes(random, data, least=0):
    if len(data) <= least:
        return "one byte more", data + b"\0"
    at = random.randrange(least, len(data))
    what = random.randrange(8)
    if what == 0:
        return "byte %d of %d flipped" % (at, len(data)), data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1:]
    if what == 1:
        return "cut at %d of %d" % (at, len(data)), data[:at]
    if what == 2:
        return "longer", data + bytes(random.randrange(256) for _ in range(random.randrange(1, 9)))
    if what == 3:
        width = random.choice((2, 4, 8))
        value = random.choice((0, 1, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 1664, 1665)) % (1 << (8 * width))
        return "%d bytes at %d are %d" % (width, at, value), data[:at] + value.to_bytes(width, "big") + data[at + width:]
    if what == 4:
        return "a hole at %d" % at, data[:at] + data[at + random.randrange(1, 9):]
    if what == 5:
        return "twice from %d" % at, data[:at] + data[at:] * 2
    if what == 6:
        return "zeros from %d" % at, data[:at] + bytes(len(data) - at)
    name = random.choice((*NAMES, *SQL)).encode("utf-8")
    return "text at %d" % at, data[:at] + name + data[at + len(name):]


def read_string(data, at):
    end = data.index(b"\0", at)
    return data[at:end], end + 1


def lie_relation(random, message, in_stream):
    """A Relation message with other names, types, counts."""
    at = 5 if in_stream else 1
    oid, = struct.unpack_from(">I", message, at)
    schema, at = read_string(message, at + 4)
    name, at = read_string(message, at)
    identity = message[at:at + 1]
    count, = struct.unpack_from(">H", message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at:at + 1]
        column, at = read_string(message, at + 1)
        columns.append([flags, column, *struct.unpack_from(">Ii", message, at)])
        at += 8
    what = random.randrange(7)
    if what == 0:
        oid = random.choice((0, 1259, 16384, 2**32 - 1, oid + 1))
    elif what == 1:
        schema = random.choice(NAMES).encode("utf-8").replace(b"\0", b"")
    elif what == 2:
        name = random.choice(NAMES).encode("utf-8").replace(b"\0", b"")
    elif what == 3 and columns:
        random.choice(columns)[1] = random.choice(NAMES).encode("utf-8").replace(b"\0", b"")
    elif what == 4 and columns:
        random.choice(columns)[2] = random.choice((0, 16, 17, 20, 23, 25, 2249, 2276, 2**32 - 1))
    elif what == 5 and columns:
        columns = random.choice((columns[1:], columns + columns[:1], columns[::-1], columns * 40))
    else:
        count = random.choice((0, len(columns) + 1, 1664, 1665, 65535))
    if what != 6:
        count = len(columns)
    return "relation %d" % what, (message[:5] if in_stream else message[:1]) + struct.pack(">I", oid) + schema + b"\0" + name + b"\0" + identity + \
        struct.pack(">H", count % 65536) + b"".join(f + c + b"\0" + struct.pack(">Ii", t, m) for f, c, t, m in columns)


def lie_row(random, message, in_stream):
    """A row with values that are not of the column's type, too many or too few of them, of another kind or relation."""
    start = 5 if in_stream else 1
    what = random.randrange(4)
    if what == 0:
        oid = random.choice((0, 1259, 16384, 2**32 - 1, struct.unpack_from(">I", message, start)[0] + random.choice((-3, -1, 1, 3))))
        return "row of relation %d" % oid, message[:start] + struct.pack(">I", oid % 2**32) + message[start + 4:]
    at = start + 4
    kind = message[at:at + 1]
    count, = struct.unpack_from(">H", message, at + 1)
    head, at = message[:at], at + 3
    values = []
    for _ in range(count):
        form = message[at:at + 1]
        at += 1
        value = b""
        if form in b"tb":
            length, = struct.unpack_from(">I", message, at)
            value, at = message[at + 4:at + 4 + length], at + 4 + length
        values.append((form, value))
    rest = message[at:]
    if what == 1:
        return "row with %d values" % (2 * len(values)), head + kind + pack_values(values + values) + rest
    if what == 2 and values:
        i = random.randrange(len(values))
        text = random.choice((*SQL, *NAMES, "NaN", "-1", "99999999999999999999", "\\x", "{", "infinity", "4713-01-01 BC")).encode("utf-8")
        values[i] = random.choice(((b"t", text), (b"b", text), (b"n", b""), (b"u", b""), (b"t", b"\xff\xfe"), (b"z", b"")))
        return "row: value %d is %r" % (i, values[i]), head + kind + pack_values(values) + rest
    return "row of kind", head + random.choice((b"K", b"O", b"N", b"X")) + pack_values(values) + rest


def pack_values(values):
    return struct.pack(">H", len(values) % 65536) + b"".join(f + (struct.pack(">I", len(v)) + v if f in b"tb" else b"") for f, v in values)


def lie_message(random, message, in_stream):
    """A message of the stream: [(said, [message, ...])]; in_stream: within a stream block, where most have an xid."""
    kind = message[:1]
    what = random.random()
    if kind == b"M" and what < 0.8:
        at = 5 if in_stream else 1
        prefix, at = read_string(message, at + 9)
        length, = struct.unpack_from(">I", message, at)
        content = message[at + 4:at + 4 + length].decode("utf-8", "surrogateescape")
        if random.random() < 0.05:
            prefix = random.choice((b"schemasync.evil", b"schemasync.", b"schemasync.rewrite", b"schemasync.state", b"schemasync.ddl", b"x"))
        lied = lie_json(random, content)
        if lied is None:
            return None
        said, text = lied
        data = text.encode("utf-8", "surrogatepass")
        head = message[:14] if in_stream else message[:10]
        return "%s %s" % (prefix.decode(), said), [head + prefix + b"\0" + struct.pack(">I", len(data)) + data]
    if kind == b"R" and what < 0.7:
        said, lied = lie_relation(random, message, in_stream)
        return said, [lied]
    if kind in b"I" and what < 0.6:
        said, lied = lie_row(random, message, in_stream)
        return said, [lied]
    if kind in b"BC" and what < 0.4:
        at = 1 if kind == b"B" else random.choice((2, 10))
        lsn = random.choice((0, 1, 2**64 - 1, 2**63, struct.unpack_from(">Q", message, at)[0] + random.choice((-2**24, -1000, -8, 8, 1000, 2**32))))
        return "%s with LSN %x" % (kind.decode(), lsn % 2**64), [message[:at] + struct.pack(">Q", lsn % 2**64) + message[at + 8:]]
    if what < 0.82:
        said, lied = lie_bytes(random, message, 1)
        return "%s %s" % (kind.decode("latin1"), said), [lied]
    choice = random.randrange(6)
    if choice == 0:
        return "%s left out" % kind.decode("latin1"), []
    if choice == 1:
        return "%s twice" % kind.decode("latin1"), [message, message]
    if choice == 2:
        letter = random.choice(b"BCORYIUDTMbPpKrSEcAxZz\0\xff").to_bytes(1, "big")
        return "%s called %s" % (kind.decode("latin1"), letter.decode("latin1")), [letter + message[1:]]
    if choice == 3:
        xid = struct.pack(">I", random.choice((0, 1, 700, 2**32 - 1)))
        extra = random.choice((
            b"S" + xid + b"\1", b"S" + xid + b"\0", b"E", b"c" + xid + b"\0" + bytes(23) + b"\1", b"A" + xid + xid, b"A" + xid + struct.pack(">I", 9),
            b"b" + struct.pack(">QQq", 1, 1, 0) + xid + b"gid\0", b"P\0" + struct.pack(">QQq", 1, 1, 0) + xid + b"gid\0",
            b"K\0" + struct.pack(">QQq", 2**33, 2**33, 0) + xid + b"gid\0", b"r\0" + struct.pack(">QQqq", 1, 1, 0, 0) + xid + b"gid\0",
            b"p\0" + struct.pack(">QQq", 1, 1, 0) + xid + b"gid\0", b"O" + bytes(8) + b"o" * 300 + b"\0", b"B" + struct.pack(">QqI", 2**40, 0, 5),
            b"C\0" + struct.pack(">QQq", 2**40, 2**40, 0), b"T" + struct.pack(">IB", 1, 7) + struct.pack(">I", 1259), b"", b"Y" + bytes(4) + b"pg_catalog\0evil\0"))
        return "%r before %s" % (extra[:6], kind.decode("latin1")), [extra, message]
    if choice == 4:
        return "empty message", [b"", message]
    return "%s and a stop after it" % kind.decode("latin1"), [message, b"E"]


def lie_frame(random, payload):
    """A frame of COPY BOTH: [(kind, payload)]"""
    what = random.randrange(9)
    wal_end = random.choice((0, 1, 2**62, 2**64 - 1))
    if what == 0:
        return "a frame of unknown kind", [(b"d", random.choice((b"", b"x", b"w", b"k", b"wabc", b"q" + bytes(40))))]
    if what == 1:
        return "a keepalive at %x" % wal_end, [(b"d", b"k" + struct.pack(">QqB", wal_end, 0, random.choice((0, 1, 2)))), (b"d", payload)]
    if what == 2:
        return "positions of the frame", [(b"d", payload[:1] + struct.pack(">QQ", wal_end, wal_end) + payload[17:])]
    if what == 3:
        return "end of the stream", [(b"c", b"")]
    if what == 4:
        fields = b"SFATAL\0VFATAL\0C" + random.choice((b"XX000", b"00000", b"\xff\xff\xff\xff\xff", b"57P01", b"1", b"SS012")) + b"\0M" + \
            random.choice((b"%s%s%n%n", b"x" * 100000, b"\xff\xfe", b"")) + b"\0D%n\0H%d\0\0"
        return "an error", [(b"E", random.choice((fields, fields[:-3], b"", b"\0")))]
    if what == 5:
        return "a notice", [(b"N", b"SNOTICE\0C00000\0M%s%n" + b"y" * 50000 + b"\0\0"), (b"d", payload)]
    if what == 6:
        return "a parameter", [(b"S", random.choice((b"client_encoding\0SQL_ASCII\0", b"client_encoding\0EUC_JP\0", b"standard_conforming_strings\0off\0", b"server_version\0" +
                                                     b"9" * 500 + b"\0", b"x\0", b"integer_datetimes\0off\0"))), (b"d", payload)]
    if what == 7:
        return "another kind of message", [(random.choice((b"Z", b"T", b"D", b"C", b"G", b"H", b"W", b"R", b"K", b"v", b"?")), payload[:20]), (b"d", payload)]
    return "a length of its own", [(b"d", payload + b"\0" * 10)]


def lie_connect(random, kind, payload):
    """A message of the beginning of a connection; None for the messages: from here on the publisher says nothing more."""
    what = random.randrange(9)
    if what == 0:
        return "silence", None
    if what == 1:
        method = random.choice((1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 99, 2**31, 2**32 - 1))
        return "authentication %d" % method, [(b"R", struct.pack(">I", method) + random.choice((
            b"", b"salt", b"SCRAM-SHA-256\0\0", b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0", b"EVIL\0\0", b"x" * 70000)))]
    if what == 2:
        return "a parameter", [(b"S", random.choice((
            b"server_version\0\0", b"server_version\0-1\0", b"server_version\0" + b"9" * 500 + b"\0", b"server_version\0%s%n\0", b"client_encoding\0EVIL\0", b"x", b"",
            b"standard_conforming_strings\0\0", b"\0\0", b"x" * 100000 + b"\0y\0"))), (kind, payload)]
    if what == 3:
        return "an error", [(b"E", random.choice((b"SFATAL\0C1\0Mevil\0\0", b"SFATAL\0C\0M\0\0", b"SFATAL\0C28000\0M%s%n\0H" + b"h" * 100000 + b"\0\0", b"", b"\0", b"no fields",
                                                     b"SERROR\0VERROR\0C00000\0Mfine\0\0")))]
    if what == 4:
        return "a notice a thousand times", [(b"N", b"SNOTICE\0C00000\0M%s%n\0\0")] * 1000 + [(kind, payload)]
    if what == 5:
        said, lied = lie_bytes(random, payload)
        return "%s %s" % (kind.decode("latin1"), said), [(kind, lied)]
    if what == 6:
        return "%s left out" % kind.decode("latin1"), []
    if what == 7:
        return "ready too early", [(b"Z", b"I"), (kind, payload)]
    return "another kind of message", [(random.choice((b"v", b"K", b"T", b"D", b"W", b"d", b"G", b"?", b"\0", b"R")), random.choice((b"", payload, b"x" * 30000)))]


def lie_answer(random, kind, payload):
    """A message of an ordinary answer: a row with other values, or none, or more of them."""
    if kind == b"D" and random.random() < 0.85:
        count, = struct.unpack_from(">H", payload, 0)
        at, values = 2, []
        for _ in range(count):
            length, = struct.unpack_from(">i", payload, at)
            at += 4
            values.append(None if length < 0 else payload[at:at + length])
            at += max(length, 0)
        what = random.randrange(6)
        if what == 0 and values:
            values[random.randrange(len(values))] = None
        elif what == 1 and values:
            i = random.randrange(len(values))
            old = values[i] or b""
            if old[:1] == b"{" and b'"' in old:
                lied = lie_json(random, old.decode("utf-8", "replace"))
                if lied:
                    values[i] = lied[1].encode("utf-8", "surrogatepass").replace(b"\0", b"")
            else:
                values[i] = random.choice((*SQL, *NAMES, "0", "-1", "99999999999", "t", "f")).encode("utf-8").replace(b"\0", b"")
        elif what == 2:
            return "no row", []
        elif what == 3:
            packed = pack_row(values)
            return "the row twice", [(b"D", packed), (b"D", packed)]
        elif what == 4:
            return "the row a thousand times", [(b"D", pack_row(values))] * 1000
        else:
            values = random.choice((values[1:], values + values, []))
        return "answer %d" % what, [(b"D", pack_row(values))]
    what = random.randrange(4)
    if what == 0:
        return "an error for an answer", [(b"E", b"SERROR\0C42P01\0Mevil %s\0\0")]
    if what == 1:
        said, lied = lie_bytes(random, payload)
        return "%s %s" % (kind.decode("latin1"), said), [(kind, lied)]
    if what == 2:
        return "copy for an answer", [(b"H", b"\0\0\0"), (kind, payload)]
    return "%s left out" % kind.decode("latin1"), []


def pack_row(values):
    return struct.pack(">H", len(values)) + b"".join(struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in values)
