"""Random sequences of DDL and DML, from a seed.

Generator.step() looks at the publisher's catalog as the session sees it (its own transaction included) and answers the
next inputs. An input may well fail on the publisher: what was not committed there must not show on the subscriber either.

Each input carries `may`: the refusal reasons that are right for it. Empty means that it must be forwarded. This is decided
here from the kind of command alone, on purpose without a look at how schemasync decides (see checker.py).
"""
import json
import random

# What a catalog query answers, as the session sees it: names sorted, so that the same seed takes the same way.
CATALOG = """
SELECT pg_catalog.json_build_object(
 'tables', coalesce((SELECT pg_catalog.json_agg(t ORDER BY s COLLATE "C", n COLLATE "C") FROM (
   SELECT n.nspname AS s, c.relname AS n, pg_catalog.json_build_object('schema', n.nspname, 'name', c.relname,
     'replident', c.relreplident, 'persistence', c.relpersistence,
     'columns', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname,
        'type', pg_catalog.format_type(a.atttypid, a.atttypmod), 'typtype', y.typtype, 'notnull', a.attnotnull,
        'default', a.atthasdef, 'identity', a.attidentity, 'generated', a.attgenerated,
        'sequence', pg_catalog.pg_get_serial_sequence(c.oid::regclass::text, a.attname) IS NOT NULL)
        ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '[]'),
     'constraints', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', k.conname, 'type', k.contype)
        ORDER BY k.conname COLLATE "C") FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'f')), '[]'),
     'key', coalesce((SELECT pg_catalog.json_agg(a.attname ORDER BY a.attname COLLATE "C") FROM pg_catalog.pg_index i
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
        WHERE i.indrelid = c.oid AND i.indisprimary), '[]'),
     'indexes', coalesce((SELECT pg_catalog.json_agg(x.relname ORDER BY x.relname COLLATE "C") FROM pg_catalog.pg_index i
        JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
        WHERE i.indrelid = c.oid AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
          WHERE k.conindid = i.indexrelid)), '[]')) AS t
   FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'schemasync')) q), '[]'),
 'enums', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', n.nspname, 'name', t.typname,
     'labels', (SELECT pg_catalog.json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e
        WHERE e.enumtypid = t.oid)) ORDER BY n.nspname COLLATE "C", t.typname COLLATE "C")
   FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'e'), '[]'),
 'schemas', (SELECT pg_catalog.json_agg(nspname ORDER BY nspname COLLATE "C") FROM pg_catalog.pg_namespace
   WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'schemasync')))
""".replace("\n", " ")

NAMES = [
    "a", "b", "c", "d", "value", "note", "Mixed", "select", "user", "order", "table", "with space", "tail ",
    'double"quote', "quote's", "dollar$1", "$$", "semi;colon", "--dash", "/*star", "back\\slash", "percent%s",
    "naïve", "日本語", "имя", "emoji🙂", "x" * 63, "é" * 31, "tab\there", "null", "true", "_under", "oid_", "9lives",
    "COALESCE", "and", "\u200bzero", "old", "new",
]
TABLE_NAMES = NAMES + ["t1", "t2", "t3", "orders", "Kunden", "group"]
LABELS = ["new", "open", "it's", "closed", "Ünïcode", "with space", "UPPER", "", "x" * 63, "a,b", "{brace}", 'q"q']


def ident(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    body = text.replace("'", "''")
    return ("E'" + body.replace("\\", "\\\\") + "'") if "\\" in text else "'" + body + "'"


def qualified(thing):
    return ident(thing["schema"]) + "." + ident(thing["name"])


class Input:
    """One thing sent to a session. may: reasons that a refusal of it may have; traits: rewrite, stable, copyable."""

    def __init__(self, sql, may=(), traits=(), session="A"):
        self.sql, self.may, self.traits, self.session = sql, sorted(may), sorted(traits), session

    def as_json(self):
        return {"session": self.session, "sql": self.sql, "may": self.may, "traits": self.traits}

    @staticmethod
    def from_json(j):
        return Input(j["sql"], j["may"], j["traits"], j["session"])


class Generator:
    BUILTIN = ["smallint", "integer", "bigint", "numeric", "numeric(12,3)", "real", "double precision", "text",
               "character varying(20)", "character varying", "character(5)", "boolean", "date",
               "timestamp without time zone", "timestamp with time zone", "time without time zone", "interval", "uuid",
               "bytea", "jsonb", "json", "inet", "integer[]", "text[]", "bit varying(9)", "int4range", "macaddr"]
    KEYABLE = {"smallint", "integer", "bigint", "numeric", "text", "character varying(20)", "uuid", "date",
               "timestamp with time zone", "bytea"}
    # changes without USING whose cast is immutable and built in, so that they must be forwarded
    WIDER = {"smallint": ["integer", "bigint", "numeric"], "integer": ["bigint", "numeric", "double precision"],
             "bigint": ["numeric"], "real": ["double precision"],
             "character varying(20)": ["character varying(40)", "character varying", "text"],
             "character varying": ["text"], "text": ["character varying"], "date": ["timestamp without time zone"],
             "numeric(12,3)": ["numeric(14,3)", "numeric"], "numeric": ["numeric(40,3)"],
             "bit varying(9)": ["bit varying(12)"]}
    # and those that depend on a setting or go through text
    DOUBTFUL = {"timestamp without time zone": ["timestamp with time zone"],
                "timestamp with time zone": ["timestamp without time zone", "date"], "integer": ["text"],
                "date": ["timestamp with time zone"], "double precision": ["real", "numeric"], "bigint": ["integer"],
                "text": ["character varying(200)"], "character(5)": ["text"], "numeric": ["double precision"]}

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.serial = 0
        self.depth = 0            # savepoints open in session A
        self.in_transaction = {"A": False, "B": False}

    # --- small choices ---

    def one_in(self, n):
        return self.rng.randrange(n) == 0

    def pick(self, things):
        return things[self.rng.randrange(len(things))]

    def fresh(self, taken, pool=NAMES):
        """A name that is not taken; often an awkward one."""
        for _ in range(20):
            name = self.pick(pool)
            if self.one_in(3):
                self.serial += 1
                name = name[:20] + str(self.serial)
            if name not in taken:
                return name
        self.serial += 1
        return "n%d" % self.serial

    def any_type(self, cat):
        if cat["enums"] and self.one_in(6):
            return qualified(self.pick(cat["enums"]))
        return self.pick(self.BUILTIN)

    # --- values ---

    def value(self, cat, type_name):
        r = self.rng
        if self.one_in(8):
            return "NULL"
        base = type_name.split("(")[0]
        if base in ("smallint", "integer", "bigint"):
            top = {"smallint": 32767, "integer": 2 ** 31 - 1, "bigint": 2 ** 63 - 1}[base]
            return str(self.pick([r.randrange(100), r.randrange(-1000, 1000), top, -top - 1 if base != "bigint" else -top]))
        if base == "numeric":
            if "(" in type_name:
                return str(r.randrange(-10 ** 6, 10 ** 6) / 1000)
            return self.pick(["'NaN'", "1e-20", "12345678901234567890.123456789", "0.000", str(r.randrange(1000)), "-1.50"])
        if base in ("real", "double precision"):
            return self.pick(["'NaN'", "'Infinity'", "'-0'", "0.1", "1e-30", str(r.random()), "1.0000001"])
        if base in ("text", "character varying", "character"):
            limit = int(type_name.split("(")[1].rstrip(")")) if "(" in type_name else 0
            if not limit and self.one_in(6):
                return "(SELECT pg_catalog.string_agg(pg_catalog.md5((i + %d)::text), '') FROM pg_catalog.generate_series(1, %d) i)" % (
                    r.randrange(1000), self.pick([100, 400]))
            text = self.pick(["", "x", "it's", "back\\slash", "line\nbreak", "tab\t", "日本語", "a b ", "NULL", "\\N", "\\.", "%s",
                              '"q"', "é" * 9, str(r.randrange(10 ** 6))])
            return literal(text[:limit] if limit else text)
        if base == "boolean":
            return self.pick(["true", "false"])
        if base == "date":
            return self.pick(["'2024-02-29'", "'infinity'", "'0044-03-15 BC'", "'%d-01-%02d'" % (r.randrange(1900, 2100), r.randrange(1, 29))])
        if base.startswith("timestamp"):
            zone = "+02" if "with time zone" in base else ""
            return self.pick(["'-infinity'", "'2024-03-31 02:30:00.123456%s'" % zone, "'1999-12-31 23:59:59%s'" % zone,
                              "'%d-06-15 12:00:00%s'" % (r.randrange(1800, 2200), zone)])
        if base.startswith("time"):
            return self.pick(["'00:00'", "'23:59:59.999999'", "'24:00:00'", "'12:34:56'"])
        if base == "interval":
            return self.pick(["'1 year 2 mons -3 days 04:05:06.7'", "'-1 day'", "'0'", "'100 hours'"])
        if base == "uuid":
            return literal("%032x" % r.getrandbits(128))
        if base == "bytea":
            return literal("\\x" + "%02x" % r.randrange(256) * r.randrange(20))
        if base in ("json", "jsonb"):
            return self.pick(["'{}'", "'{\"a\": [1, null, \"é\"]}'", "'null'", "'\"text\"'", "'{\"n\": %d}'" % r.randrange(1000), "'1e3'"])
        if base == "inet":
            return self.pick(["'10.0.0.%d'" % r.randrange(256), "'::1/64'", "'192.168.0.0/16'"])
        if base == "integer[]":
            return self.pick(["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'[5:6]={7,8}'"])
        if base == "text[]":
            return self.pick(["'{}'", "ARRAY['a,b', NULL, '\"q\"', '']", "ARRAY['é', 'NULL']"])
        if base == "bit varying":
            return self.pick(["B''", "B'101'", "B'111100001'"])
        if base == "int4range":
            return self.pick(["'empty'", "'[1,5)'", "'(,)'", "'[%d,)'" % r.randrange(100)])
        if base == "macaddr":
            return "'08:00:2b:01:02:%02x'" % r.randrange(256)
        for enum in cat["enums"]:
            if type_name in (qualified(enum), enum["name"], enum["schema"] + "." + enum["name"], ident(enum["name"]),
                             enum["schema"] + "." + ident(enum["name"])):
                return literal(self.pick(enum["labels"])) if enum["labels"] else "NULL"
        return "NULL"

    def constant(self, cat, type_name):
        for _ in range(20):
            v = self.value(cat, type_name)
            if v != "NULL" and not v.startswith("(SELECT"):
                return v
        return "NULL"

    # --- DML ---

    def writable(self, table):
        return [c for c in table["columns"] if c["generated"] == "" and c["identity"] != "a"]

    def insert(self, cat, table):
        columns = self.writable(table)
        if not columns:
            return [Input("INSERT INTO %s DEFAULT VALUES" % qualified(table))]
        if len(columns) > 1 and self.one_in(3):
            columns = [c for c in columns if self.rng.random() < 0.7] or columns
        rows = []
        for _ in range(self.pick([1, 1, 2, 5, 20])):
            values = []
            for c in columns:
                v = self.value(cat, c["type"])
                if c["name"] in table["key"] and c["type"] in ("integer", "bigint"):
                    self.serial += 1
                    v = str(1000 + self.serial)
                if (v == "NULL" and c["notnull"]) or (c["default"] and self.one_in(4)):
                    v = "DEFAULT" if c["default"] else self.constant(cat, c["type"])
                values.append(v)
            rows.append("(" + ", ".join(values) + ")")
        return [Input("INSERT INTO %s (%s) VALUES %s ON CONFLICT DO NOTHING" % (
            qualified(table), ", ".join(ident(c["name"]) for c in columns), ", ".join(rows)))]

    def some_rows(self, table):
        """A condition that is true for some rows, on both sides alike."""
        if not table["columns"] or self.one_in(6):
            return "true"
        c = self.pick(table["columns"])
        return "pg_catalog.hashtext(coalesce(%s::pg_catalog.text, '')) %% 3 = %d" % (ident(c["name"]), self.rng.randrange(-2, 3))

    def update(self, cat, table):
        columns = [c for c in self.writable(table) if c["identity"] == ""]
        if not columns:
            return []
        sets = []
        for c in self.rng.sample(columns, min(len(columns), self.pick([1, 1, 2]))):
            if c["name"] in table["key"] and c["type"] in ("integer", "bigint"):
                sets.append("%s = %s + %d" % (ident(c["name"]), ident(c["name"]), self.pick([1000, 50000])))
            else:
                v = self.constant(cat, c["type"]) if c["notnull"] else self.value(cat, c["type"])
                sets.append("%s = %s" % (ident(c["name"]), v))
        return [Input("UPDATE %s SET %s WHERE %s" % (qualified(table), ", ".join(sets), self.some_rows(table)))]

    def delete(self, cat, table):
        return [Input("DELETE FROM %s WHERE %s" % (qualified(table), self.some_rows(table)))]

    def dml(self, cat, session="A"):
        if not cat["tables"]:
            return []
        table = self.pick(cat["tables"])
        roll = self.rng.randrange(20)
        if roll < 11:
            inputs = self.insert(cat, table)
        elif roll < 16:
            inputs = self.update(cat, table)
        elif roll < 19:
            inputs = self.delete(cat, table)
        else:
            inputs = [Input("TRUNCATE %s" % qualified(table))]
        for i in inputs:
            i.session = session
        return inputs

    # --- columns ---

    def column_definition(self, cat, table_is_new=False):
        """(text after the name, may, traits)"""
        t = self.any_type(cat)
        roll = self.rng.randrange(20)
        if roll < 7:
            return t, set(), set()
        if roll < 12:
            null = self.pick(["", " NOT NULL"])
            value = self.constant(cat, t)
            return t + " DEFAULT " + value + (null if value != "NULL" else ""), set(), set()
        if roll < 14:
            text = self.pick(["timestamp with time zone DEFAULT now()", "date DEFAULT CURRENT_DATE", "text DEFAULT current_user",
                              "timestamp with time zone DEFAULT COALESCE(NULL, now()) NOT NULL", "text DEFAULT now()::text"])
            return text, set(), {"stable"}
        if roll < 15:
            text = self.pick(["integer GENERATED ALWAYS AS (1 + 1) STORED", "text GENERATED ALWAYS AS ('x' || 'y') STORED"])
            return text, set(), {"rewrite"}
        if roll < 16 and table_is_new:
            return self.pick(["serial", "bigint GENERATED BY DEFAULT AS IDENTITY", "bigint GENERATED ALWAYS AS IDENTITY"]), set(), set()
        if roll < 18 and not table_is_new:
            text = self.pick(["double precision DEFAULT random()", "uuid DEFAULT gen_random_uuid()",
                              "timestamp with time zone DEFAULT clock_timestamp()", "serial",
                              "bigint GENERATED BY DEFAULT AS IDENTITY", "text DEFAULT 'x' || random()::text"])
            may = {"volatile_default"}
            if "serial" in text or "IDENTITY" in text:
                # without rows nothing is volatile about it, but its sequence is not on the subscriber
                may |= {"unsupported_object", "missing_object"}
            return text, may, {"rewrite", "copyable"}
        return t, set(), set()

    def alter(self, table, action):
        return "ALTER TABLE %s %s" % (qualified(table), action)

    def add_column(self, cat, table):
        text, may, traits = self.column_definition(cat)
        name = self.fresh([c["name"] for c in table["columns"]])
        return [Input(self.alter(table, "ADD COLUMN %s %s" % (ident(name), text)), may, traits)]

    def drop_column(self, cat, table):
        if not table["columns"]:
            return []
        c = self.pick(table["columns"])
        if self.one_in(4):   # and add one of the same name again
            text, may, traits = self.column_definition(cat)
            if self.one_in(2):
                return [Input(self.alter(table, "DROP COLUMN %s, ADD COLUMN %s %s" % (ident(c["name"]), ident(c["name"]), text)), may, traits)]
            return [Input(self.alter(table, "DROP COLUMN %s CASCADE" % ident(c["name"]))),
                    Input(self.alter(table, "ADD COLUMN %s %s" % (ident(c["name"]), text)), may, traits)]
        return [Input(self.alter(table, "DROP COLUMN %s" % ident(c["name"])))]

    def rename_column(self, cat, table):
        if not table["columns"]:
            return []
        names = [c["name"] for c in table["columns"]]
        old = self.pick(names)

        def rename(a, b):
            return Input(self.alter(table, "RENAME COLUMN %s TO %s" % (ident(a), ident(b))))
        roll = self.rng.randrange(5)
        if roll == 0 and len(names) > 1:      # swap
            other = self.pick([n for n in names if n != old])
            return [Input("BEGIN"), rename(old, "~swap~"), rename(other, old), rename("~swap~", other), Input("COMMIT")]
        if roll == 1:                         # rename away, add the old name again
            text, may, traits = self.column_definition(cat)
            return [Input("BEGIN"), rename(old, self.fresh(names)),
                    Input(self.alter(table, "ADD COLUMN %s %s" % (ident(old), text)), may, traits), Input("COMMIT")]
        if roll == 2:                         # a chain
            b, c = self.fresh(names), "~chain~"
            return [rename(old, c), rename(c, b)]
        return [rename(old, self.fresh(names))]

    def retype(self, cat, table):
        for _ in range(6):
            if not table["columns"]:
                return []
            c = self.pick(table["columns"])
            name = ident(c["name"])
            roll = self.rng.randrange(6)
            if roll < 3 and c["type"] in self.WIDER:
                return [Input(self.alter(table, "ALTER COLUMN %s TYPE %s" % (name, self.pick(self.WIDER[c["type"]]))), (), {"rewrite"})]
            if roll == 3 and c["type"] in self.DOUBTFUL:
                return [Input(self.alter(table, "ALTER COLUMN %s TYPE %s" % (name, self.pick(self.DOUBTFUL[c["type"]]))),
                              {"type_change_unproven", "rewrite_unproven"}, {"rewrite", "copyable"})]
            if roll == 4 and c["type"] in ("integer", "bigint", "numeric"):
                return [Input(self.alter(table, "ALTER COLUMN %s TYPE %s USING %s + 1" % (name, c["type"], name)), (), {"rewrite"})]
            if roll == 5 and c["type"] == "text" and not c["default"]:
                return [Input(self.alter(table, "ALTER COLUMN %s TYPE integer USING length(%s)" % (name, name)), (), {"rewrite"})]
        return []

    def column_property(self, cat, table):
        if not table["columns"]:
            return []
        c = self.pick(table["columns"])
        name = ident(c["name"])
        actions = ["SET NOT NULL", "DROP NOT NULL", "DROP DEFAULT", "SET DEFAULT " + self.constant(cat, c["type"])]
        action = self.pick(actions)
        if c["type"] == "uuid" and self.one_in(2):
            action = "SET DEFAULT gen_random_uuid()"     # changes no row that is there
        inputs = []
        if action == "SET NOT NULL" and c["generated"] == "" and self.one_in(2):
            inputs.append(Input("UPDATE %s SET %s = %s WHERE %s IS NULL" % (qualified(table), name, self.constant(cat, c["type"]), name)))
        return inputs + [Input(self.alter(table, "ALTER COLUMN %s %s" % (name, action)))]

    def several(self, cat, table):
        """One ALTER TABLE with several parts on different columns."""
        parts, may, traits = [], set(), set()
        for c in self.rng.sample(table["columns"], min(len(table["columns"]), self.pick([1, 2, 3]))):
            if self.one_in(3):
                parts.append("DROP COLUMN " + ident(c["name"]))
            elif c["type"] in self.WIDER and self.one_in(2):
                parts.append("ALTER COLUMN %s TYPE %s" % (ident(c["name"]), self.pick(self.WIDER[c["type"]])))
                traits.add("rewrite")
            else:
                parts.append("ALTER COLUMN %s DROP NOT NULL" % ident(c["name"]))
        for _ in range(self.pick([1, 2])):
            text, m, t = self.column_definition(cat)
            name = self.fresh([c["name"] for c in table["columns"]])
            parts.append("ADD COLUMN %s %s" % (ident(name), text))
            may |= m
            traits |= t
        self.rng.shuffle(parts)
        return [Input(self.alter(table, ", ".join(parts)), may, traits)]

    # --- keys, constraints, indexes ---

    def keys(self, cat, table):
        primary = [k["name"] for k in table["constraints"] if k["type"] == "p"]
        unique = [k["name"] for k in table["constraints"] if k["type"] == "u"]
        keyable = [c for c in table["columns"] if c["type"] in self.KEYABLE]
        roll = self.rng.randrange(9)
        if roll == 0 and primary:
            return [Input(self.alter(table, "DROP CONSTRAINT " + ident(primary[0])))]
        if roll == 1 and not primary and keyable:
            return [Input(self.alter(table, "ADD PRIMARY KEY (%s)" % ident(self.pick(keyable)["name"])))]
        if roll == 2 and keyable:
            return [Input(self.alter(table, "ADD CONSTRAINT %s UNIQUE (%s)" % (ident(self.fresh([])), ident(self.pick(keyable)["name"]))))]
        if roll == 3 and unique:
            return [Input(self.alter(table, "DROP CONSTRAINT " + ident(self.pick(unique))))]
        if roll in (4, 5) and keyable:
            how = self.pick(["", "", "UNIQUE "])
            return [Input("CREATE %sINDEX %s ON %s (%s)" % (how, ident(self.fresh([])), qualified(table), ident(self.pick(keyable)["name"])))]
        if roll == 6 and table["indexes"]:
            return [Input("DROP INDEX %s.%s" % (ident(table["schema"]), ident(self.pick(table["indexes"]))))]
        if roll == 7 and table["indexes"]:
            return [Input("ALTER INDEX %s.%s RENAME TO %s" % (ident(table["schema"]), ident(self.pick(table["indexes"])), ident(self.fresh([]))))]
        return [Input(self.alter(table, "REPLICA IDENTITY " + self.pick(["FULL", "FULL", "DEFAULT"])))]

    # --- tables, types, schemas ---

    def create_table(self, cat, temporary=False):
        schema = self.pick(cat["schemas"])
        name = self.fresh([t["name"] for t in cat["tables"]], TABLE_NAMES)
        table = {"schema": schema, "name": name}
        roll = self.rng.randrange(10)
        if roll == 0 and cat["tables"]:
            source = self.pick(cat["tables"])
            return [Input("CREATE TABLE %s AS SELECT * FROM %s" % (qualified(table), qualified(source))),
                    Input(self.alter(table, "REPLICA IDENTITY FULL"))]
        if roll == 1 and cat["tables"]:
            source = self.pick(cat["tables"])
            return [Input("CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING INDEXES)" % (qualified(table), qualified(source)))]
        key = self.pick(["id", "ID", "select", "k é"])
        parts = ["%s %s PRIMARY KEY" % (ident(key), self.pick(["integer", "bigint", "integer GENERATED BY DEFAULT AS IDENTITY"]))]
        keyed = not self.one_in(5)
        if not keyed:
            parts = ["%s integer" % ident(key)]
        names = [key]
        for _ in range(self.rng.randrange(6)):
            text, _, _ = self.column_definition(cat, table_is_new=True)
            names.append(self.fresh(names))
            parts.append(ident(names[-1]) + " " + text)
        inputs = [Input("CREATE TABLE %s (%s)" % (qualified(table), ", ".join(parts)))]
        if not keyed:
            inputs.append(Input(self.alter(table, "REPLICA IDENTITY FULL")))
        return inputs

    def table_level(self, cat, table):
        names = [t["name"] for t in cat["tables"]]
        roll = self.rng.randrange(8)
        if roll < 3:
            return [Input(self.alter(table, "RENAME TO " + ident(self.fresh(names, TABLE_NAMES))))]
        if roll < 5:
            return [Input(self.alter(table, "SET SCHEMA " + ident(self.pick(cat["schemas"]))))]
        if roll == 5:
            again = self.create_table(cat)
            return [Input("BEGIN"), Input("DROP TABLE " + qualified(table)), *again, Input("COMMIT")]
        if roll == 6:
            return [Input("DROP TABLE " + qualified(table))]
        other = self.pick(cat["tables"])      # swap two tables' names
        if other["schema"] != table["schema"] or other["name"] == table["name"]:
            return []
        temp = {"schema": table["schema"], "name": "~swap~"}
        return [Input("BEGIN"), Input(self.alter(table, "RENAME TO " + ident("~swap~"))),
                Input(self.alter(other, "RENAME TO " + ident(table["name"]))),
                Input(self.alter(temp, "RENAME TO " + ident(other["name"]))), Input("COMMIT")]

    def types(self, cat):
        if cat["enums"] and self.one_in(2):
            enum = self.pick(cat["enums"])
            label = self.fresh(enum["labels"] or [], LABELS)
            where = "" if not enum["labels"] or self.one_in(2) else " %s %s" % (self.pick(["BEFORE", "AFTER"]), literal(self.pick(enum["labels"])))
            return [Input("ALTER TYPE %s ADD VALUE %s%s" % (qualified(enum), literal(label), where))]
        if self.one_in(3) and len(cat["schemas"]) < 4:
            return [Input("CREATE SCHEMA " + ident(self.fresh(cat["schemas"])))]
        labels = self.rng.sample(LABELS, self.rng.randrange(1, 5))
        enum = {"schema": self.pick(cat["schemas"]), "name": self.fresh([e["name"] for e in cat["enums"]])}
        return [Input("CREATE TYPE %s AS ENUM (%s)" % (qualified(enum), ", ".join(map(literal, labels))))]

    def elsewhere(self, cat, table):
        """What replication has nothing to do with, or what it may refuse as unsupported."""
        may = {"unsupported_object", "missing_object"}
        c = self.pick(table["columns"]) if table["columns"] else None
        choices = [
            Input("CREATE TEMPORARY TABLE IF NOT EXISTS scratch (a int DEFAULT 1, b serial)"),
            Input("ALTER TABLE IF EXISTS pg_temp.scratch ADD COLUMN IF NOT EXISTS c text DEFAULT random()::text"),
            Input("INSERT INTO pg_temp.scratch DEFAULT VALUES"),
            Input("DROP TABLE IF EXISTS pg_temp.scratch"),
            Input("ANALYZE " + qualified(table)),
            Input("COMMENT ON TABLE %s IS 'a comment'" % qualified(table)),
            Input("GRANT SELECT ON %s TO PUBLIC" % qualified(table)),
            Input("CREATE OR REPLACE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
            Input("SELECT pg_catalog.pg_logical_emit_message(true, 'somebody', 'hello')"),
            Input("CREATE OR REPLACE VIEW public.v AS SELECT 1 AS one"),
        ]
        if c is not None:
            choices += [
                Input(self.alter(table, "ADD CONSTRAINT %s CHECK (%s IS NULL OR true)" % (ident(self.fresh([])), ident(c["name"]))), may),
                Input(self.alter(table, "ALTER COLUMN %s SET STATISTICS 50" % ident(c["name"])), may),
                Input(self.alter(table, "SET (fillfactor = 80)"), may),
            ]
        return [self.pick(choices)]

    # --- the order of things ---

    def ddl(self, cat):
        if len(cat["tables"]) < 2 or (len(cat["tables"]) < 6 and self.one_in(12)):
            return self.create_table(cat)
        table = self.pick(cat["tables"])
        kinds = [(6, self.add_column), (3, self.drop_column), (4, self.rename_column), (4, self.retype),
                 (4, self.column_property), (2, self.several), (4, self.keys), (2, self.table_level)]
        roll = self.rng.randrange(sum(w for w, _ in kinds) + 4)
        for weight, kind in kinds:
            roll -= weight
            if roll < 0:
                return kind(cat, table) if table["columns"] or kind == self.add_column else self.add_column(cat, table)
        return self.types(cat) if self.one_in(2) else self.elsewhere(cat, table)

    def wrapped(self, inputs):
        """The same in a DO block, or as one query string of several statements."""
        plain = [i for i in inputs if i.sql.split(" ")[0] in ("ALTER", "CREATE", "DROP", "INSERT", "UPDATE", "DELETE")
                 and "ADD VALUE" not in i.sql]
        if len(plain) != len(inputs) or not inputs:
            return inputs
        may = set().union(*(i.may for i in inputs))
        traits = set().union(*(i.traits for i in inputs))
        if self.one_in(2):
            body = "; ".join("EXECUTE " + literal(i.sql) for i in inputs)
            tag = "$body%d$" % self.serial
            return [Input("DO %s BEGIN %s; END %s" % (tag, body, tag), may, traits)]
        return [Input(" \\; ".join(i.sql for i in inputs), may, traits)]

    def step(self, cat):
        """The next inputs; cat is the catalog as session A sees it."""
        roll = self.rng.randrange(100)
        a, b = self.in_transaction["A"], self.in_transaction["B"]
        if roll < 8 and not a:
            return self._note([Input("BEGIN")])
        if roll < 30 and a:
            choice = self.rng.randrange(10)
            if choice < 5:
                return self._note([Input("COMMIT")])
            if choice < 6:
                return self._note([Input("ROLLBACK")])
            if choice < 8:
                self.depth += 1
                return [Input("SAVEPOINT s%d" % self.depth)]
            if self.depth:
                inner = self.depth
                self.depth -= 1
                return [Input(self.pick(["ROLLBACK TO s%d", "RELEASE s%d"]) % inner)]
            return self._note([Input("COMMIT")])
        if roll < 38:
            if not b:
                return self._note([Input("BEGIN", session="B"), *self.dml(cat, "B")])
            return self._note(self.pick([[Input("COMMIT", session="B")], self.dml(cat, "B"), [Input("COMMIT", session="B")],
                                         [Input("ROLLBACK", session="B")]]))
        if roll < 58:
            return self.dml(cat)
        inputs = self.ddl(cat)
        if a:   # no transaction within one
            inputs = [i for i in inputs if i.sql not in ("BEGIN", "COMMIT")]
        if self.one_in(6):
            inputs = self.wrapped(inputs)
        return inputs

    def _note(self, inputs):
        for i in inputs:
            if i.sql == "BEGIN":
                self.in_transaction[i.session] = True
            elif i.sql in ("COMMIT", "ROLLBACK"):
                self.in_transaction[i.session] = False
                if i.session == "A":
                    self.depth = 0
        return inputs

    def setup(self, cat):
        """The schema that is there before the subscription."""
        inputs = [Input("CREATE SCHEMA " + ident(self.fresh(cat["schemas"])))] if self.one_in(2) else []
        inputs.append(Input("CREATE TYPE public.mood AS ENUM ('good', 'bad')"))
        return inputs


def parse_catalog(lines):
    return json.loads("".join(lines))
