"""What the generator makes of more than single tables: partitions, inheritance, foreign keys, checks, domains, composite
and range types, generated columns and identity, schemas, and, with classes, the definitions that ddl_classes follows.
"""
from generate import CATALOG, LABELS, NAMES, TABLE_NAMES, Generator, Input, ident, literal, qualified

# More of the catalog, as the session sees it; ordered by names, so that the same seed takes the same way.
MORE = """
SELECT pg_catalog.json_build_object(
 'partitioned', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', n.nspname, 'name', c.relname,
     'strategy', p.partstrat, 'key', (SELECT a.attname FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum = p.partattrs[0]), 'is_partition', c.relispartition,
     'columns', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname,
        'type', pg_catalog.format_type(a.atttypid, a.atttypmod), 'notnull', a.attnotnull, 'default', a.atthasdef,
        'identity', a.attidentity, 'generated', a.attgenerated) ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '[]'),
     'constraints', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', k.conname, 'type', k.contype)
        ORDER BY k.conname COLLATE "C") FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'f') AND k.conparentid = 0), '[]'),
     'parts', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', m.nspname, 'name', d.relname,
        'bound', pg_catalog.pg_get_expr(d.relpartbound, d.oid)) ORDER BY m.nspname COLLATE "C", d.relname COLLATE "C")
        FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class d ON d.oid = i.inhrelid
        JOIN pg_catalog.pg_namespace m ON m.oid = d.relnamespace WHERE i.inhparent = c.oid), '[]'))
     ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C")
   FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = c.oid), '[]'),
 'children', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', n.nspname, 'name', c.relname,
     'parent', pg_catalog.format('%I.%I', m.nspname, p.relname)) ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C",
     m.nspname COLLATE "C", p.relname COLLATE "C")
   FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r' AND NOT c.relispartition
   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
   JOIN pg_catalog.pg_namespace m ON m.oid = p.relnamespace), '[]'),
 'domains', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', n.nspname, 'name', t.typname,
     'base', pg_catalog.format_type(t.typbasetype, t.typtypmod),
     'constraints', coalesce((SELECT pg_catalog.json_agg(k.conname ORDER BY k.conname COLLATE "C")
        FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'), '[]'))
     ORDER BY n.nspname COLLATE "C", t.typname COLLATE "C")
   FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
   WHERE t.typtype = 'd' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'schemasync')), '[]'),
 'composites', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', n.nspname, 'name', c.relname,
     'columns', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname,
        'type', pg_catalog.format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '[]'))
     ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C")
   FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind = 'c' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'schemasync')), '[]'),
 'unvalidated', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('table', pg_catalog.format('%I.%I', n.nspname,
     c.relname), 'name', k.conname) ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C", k.conname COLLATE "C")
   FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE NOT k.convalidated), '[]'),
 'views', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('schema', n.nspname, 'name', c.relname,
     'kind', c.relkind) ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C")
   FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('v', 'm') AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'schemasync')
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')), '[]'),
 'triggers', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('table', pg_catalog.format('%I.%I', n.nspname,
     c.relname), 'name', t.tgname) ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C", t.tgname COLLATE "C")
   FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND n.nspname <> 'schemasync'), '[]'))
""".replace("\n", " ")


class Structures(Generator):
    """classes: whether definitions of every class are followed, so that they must be equal too."""

    queries = (CATALOG, MORE)

    def __init__(self, seed, classes=False):
        super().__init__(seed)
        self.classes = classes

    # --- types and their values ---

    def any_type(self, cat):
        made = cat["domains"] + cat["composites"]
        if made and self.one_in(8):
            return qualified(self.pick(made)) + self.pick(["", "", "", "[]"])
        return super().any_type(cat)

    def named(self, things, type_name):
        for thing in things:
            names = [s + "." + n for s in (thing["schema"], ident(thing["schema"])) for n in (thing["name"], ident(thing["name"]))]
            if type_name in names + [thing["name"], ident(thing["name"])]:
                return thing
        return None

    def value(self, cat, type_name):
        if type_name.endswith("[]") and type_name not in self.BUILTIN:
            element = self.value(cat, type_name[:-2])
            return "NULL" if element == "NULL" else "ARRAY[%s]::%s" % (element, type_name)
        domain = self.named(cat["domains"], type_name)
        if domain:
            return super().value(cat, domain["base"])
        composite = self.named(cat["composites"], type_name)
        if composite:
            if self.one_in(6):
                return "NULL"
            fields = [super(Structures, self).value(cat, c["type"]) for c in composite["columns"]]
            return "ROW(%s)::%s" % (", ".join(fields), qualified(composite))
        return super().value(cat, type_name)

    def check_of(self, name):
        n = ident(name)
        return self.pick(["%s IS NULL OR pg_catalog.length(%s::pg_catalog.text) < 100000" % (n, n), "(%s)::text <> 'no such'" % n,
                          "%s IS DISTINCT FROM NULL OR true" % n, "%s IS NOT NULL" % n, "coalesce(%s::text, '') !~ '~never~'" % n])

    def more_types(self, cat):
        roll = self.rng.randrange(12)
        schema = self.pick(cat["schemas"])
        taken = [t["name"] for t in cat["domains"] + cat["composites"] + cat["enums"] + cat["tables"]]
        name = {"schema": schema, "name": self.fresh(taken)}
        if roll < 3 or not (cat["domains"] or cat["composites"]):
            base = self.pick(["integer", "text", "numeric(12,3)", "character varying(20)", "date", "bigint"])
            check = self.pick(["", " CHECK (VALUE IS NULL OR pg_catalog.length(VALUE::pg_catalog.text) < 1000)", " CHECK (VALUE::text <> 'no')"])
            return [Input("CREATE DOMAIN %s AS %s%s%s" % (qualified(name), base, self.pick(["", "", " DEFAULT NULL"]), check))]
        if roll < 5:
            return [Input("CREATE TYPE %s AS (%s integer, %s text)" % (qualified(name), ident(self.fresh([])), ident("f2")))]
        if cat["domains"] and roll < 9:
            domain = self.pick(cat["domains"])
            d = qualified(domain)
            return [Input("ALTER DOMAIN %s %s" % (d, self.pick(
                ["ADD CONSTRAINT %s CHECK (VALUE::text <> 'never')" % ident(self.fresh(domain["constraints"])),
                 "DROP CONSTRAINT %s" % ident(self.pick(domain["constraints"] or ["none"])),
                 "RENAME TO " + ident(self.fresh(taken)), "SET SCHEMA " + ident(schema), "DROP DEFAULT",
                 "RENAME CONSTRAINT %s TO %s" % (ident(self.pick(domain["constraints"] or ["none"])), ident(self.fresh([])))])))]
        if cat["composites"] and roll < 11:
            composite = self.pick(cat["composites"])
            c = qualified(composite)
            field = ident(self.pick(composite["columns"])["name"]) if composite["columns"] else '"f2"'
            return [Input("ALTER TYPE %s %s" % (c, self.pick(
                ["ADD ATTRIBUTE %s integer" % ident(self.fresh([])), "RENAME ATTRIBUTE %s TO %s" % (field, ident(self.fresh([]))),
                 "DROP ATTRIBUTE " + field, "RENAME TO " + ident(self.fresh(taken)), "SET SCHEMA " + ident(schema)])))]
        if cat["enums"]:
            return self.enum_change(cat, schema)
        return []

    def enum_change(self, cat, schema):
        enum = self.pick(cat["enums"])
        users = [(t, c) for t in cat["tables"] for c in t["columns"] if self.named([enum], c["type"]) and not c["default"]]
        if users and self.one_in(2):    # in the way ORMs replace one
            table, column = self.pick(users)
            old = dict(enum, name="~old~")
            labels = (enum["labels"] or []) + [self.fresh(enum["labels"] or [], LABELS)]
            return [Input("BEGIN"), Input("ALTER TYPE %s RENAME TO %s" % (qualified(enum), ident("~old~"))),
                    Input("CREATE TYPE %s AS ENUM (%s)" % (qualified(enum), ", ".join(map(literal, labels)))),
                    Input(self.alter(table, "ALTER COLUMN %s TYPE %s USING %s::text::%s" % (
                        ident(column["name"]), qualified(enum), ident(column["name"]), qualified(enum))), (), {"rewrite"}),
                    Input("DROP TYPE %s" % qualified(old)), Input("COMMIT")]
        what = ["RENAME TO " + ident(self.fresh([e["name"] for e in cat["enums"]])), "SET SCHEMA " + ident(schema)]
        if enum["labels"]:
            what.append("RENAME VALUE %s TO %s" % (literal(self.pick(enum["labels"])), literal(self.fresh(enum["labels"], LABELS))))
        return [Input("ALTER TYPE %s %s" % (qualified(enum), self.pick(what)))]

    # --- partitions and inheritance ---

    def bound(self, parent):
        if parent["strategy"] == "r":
            at = self.rng.randrange(-3, 12) * 100
            return self.pick(["FOR VALUES FROM (%d) TO (%d)" % (at, at + 100)] * 4 +
                             ["FOR VALUES FROM (MINVALUE) TO (-300)", "FOR VALUES FROM (1200) TO (MAXVALUE)", "DEFAULT"])
        if parent["strategy"] == "l":
            at = self.rng.randrange(12) * 2
            return self.pick(["FOR VALUES IN (%d, %d)" % (at, at + 1)] * 4 + ["FOR VALUES IN (NULL)", "DEFAULT"])
        return "FOR VALUES WITH (MODULUS 3, REMAINDER %d)" % self.rng.randrange(3)

    def create_partitioned(self, cat):
        taken = [t["name"] for t in cat["tables"] + cat["partitioned"]]
        root = {"schema": self.pick(cat["schemas"]), "name": self.fresh(taken, TABLE_NAMES), "strategy": self.pick("rrllh")}
        how = {"r": "RANGE", "l": "LIST", "h": "HASH"}[root["strategy"]]
        parts, names = ['"id" integer', '"at" integer%s' % self.pick(["", " NOT NULL"])], ["id", "at"]
        for _ in range(self.rng.randrange(4)):
            text, _, _ = self.column_definition(cat, table_is_new=True)
            if "IDENTITY" not in text and "GENERATED" not in text:
                names.append(self.fresh(names))
                parts.append(ident(names[-1]) + " " + text)
        keyed = not self.one_in(4)
        if keyed:
            parts.append('PRIMARY KEY ("id", "at")')
        inputs = [Input("CREATE TABLE %s (%s) PARTITION BY %s (\"at\")" % (qualified(root), ", ".join(parts), how))]
        bounds = set()
        for _ in range(self.pick([0, 1, 2, 3])):
            bounds.add(self.bound(root))
        for b in sorted(bounds):
            taken.append(self.fresh(taken, TABLE_NAMES))
            part = {"schema": root["schema"], "name": taken[-1]}
            inputs.append(Input("CREATE TABLE %s PARTITION OF %s %s" % (qualified(part), qualified(root), b)))
            if not keyed:
                inputs.append(Input(self.alter(part, "REPLICA IDENTITY FULL")))
        return inputs

    def partitions(self, cat):
        if not cat["partitioned"] or (len(cat["partitioned"]) < 3 and self.one_in(5)):
            return self.create_partitioned(cat)
        root = self.pick(cat["partitioned"])
        r = qualified(root)
        taken = [t["name"] for t in cat["tables"] + cat["partitioned"]]
        part = {"schema": self.pick([root["schema"], self.pick(cat["schemas"])]), "name": self.fresh(taken, TABLE_NAMES)}
        keyless = not any(k["type"] == "p" for k in root["constraints"])
        full = [Input(self.alter(part, "REPLICA IDENTITY FULL"))] if keyless else []
        roll = self.rng.randrange(14)
        if roll < 3:
            return [Input("CREATE TABLE %s PARTITION OF %s %s" % (qualified(part), r, self.bound(root))), *full]
        if roll < 5:      # a table that is there is attached, with rows
            rows = ", ".join("(%d, %d)" % (self.rng.randrange(1000), self.rng.randrange(100)) for _ in range(3))
            return [Input("CREATE TABLE %s (LIKE %s INCLUDING ALL)" % (qualified(part), r)),
                    *full, Input("INSERT INTO %s (\"id\", \"at\") VALUES %s" % (qualified(part), rows)),
                    Input(self.alter(root, "ATTACH PARTITION %s %s" % (qualified(part), self.bound(root))))]
        if roll == 5:     # a partitioned partition
            inner = {"schema": part["schema"], "name": self.fresh(taken + [part["name"]], TABLE_NAMES), "strategy": "h"}
            return [Input("CREATE TABLE %s PARTITION OF %s %s PARTITION BY HASH (\"id\")" % (qualified(part), r, self.bound(root))),
                    Input("CREATE TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS 1, REMAINDER 0)" % (qualified(inner), qualified(part))),
                    *([Input(self.alter(inner, "REPLICA IDENTITY FULL"))] if keyless else [])]
        if roll < 8 and root["parts"]:
            old = self.pick(root["parts"])
            detached = Input(self.alter(root, "DETACH PARTITION %s%s" % (qualified(old), self.pick(["", "", " CONCURRENTLY"]))))
            after = self.pick([[], [Input("DROP TABLE " + qualified(old))], [Input(self.alter(old, "ADD COLUMN more integer DEFAULT 7"))],
                               [Input(self.alter(root, "ATTACH PARTITION %s %s" % (qualified(old), old["bound"])))]])
            return [detached, *after]
        if roll == 8 and root["parts"]:
            return [Input("DROP TABLE " + qualified(self.pick(root["parts"])))]
        if roll == 9:
            return [Input("CREATE %sINDEX %s ON %s (\"id\", \"at\")" % (self.pick(["", "", "UNIQUE "]), ident(self.fresh([])), r))]
        if roll == 10:
            return [Input(self.pick(["TRUNCATE " + r, "DROP TABLE " + r, self.alter(root, "RENAME TO " + ident(self.fresh(taken, TABLE_NAMES)))]))]
        return self.on_root(cat, root)

    def on_root(self, cat, root):
        """A change of the root's shape, which reaches its partitions."""
        names = [c["name"] for c in root["columns"]]
        others = [c for c in root["columns"] if c["name"] not in ("id", "at")]
        roll = self.rng.randrange(7)
        if roll < 2 or not others:
            text, may, traits = self.column_definition(cat)
            return [Input(self.alter(root, "ADD COLUMN %s %s" % (ident(self.fresh(names)), text)), may, traits)]
        c = self.pick(others)
        n = ident(c["name"])
        if roll == 2:
            return [Input(self.alter(root, "DROP COLUMN " + n))]
        if roll == 3:
            return [Input(self.alter(root, "RENAME COLUMN %s TO %s" % (n, ident(self.fresh(names)))))]
        if roll == 4 and c["type"] in self.WIDER:
            return [Input(self.alter(root, "ALTER COLUMN %s TYPE %s" % (n, self.pick(self.WIDER[c["type"]]))), (), {"rewrite"})]
        if roll == 5:
            return [Input(self.alter(root, "ADD CONSTRAINT %s CHECK (%s)%s" % (
                ident(self.fresh([])), self.check_of(c["name"]), self.pick(["", " NOT VALID"]))))]
        return [Input(self.alter(root, "ALTER COLUMN %s %s" % (n, self.pick(
            ["SET DEFAULT " + self.constant(cat, c["type"]), "DROP DEFAULT", "SET NOT NULL", "DROP NOT NULL"]))))]

    def inheritance(self, cat):
        if cat["children"] and self.one_in(2):
            child = self.pick(cat["children"])
            leave = Input("ALTER TABLE %s NO INHERIT %s" % (qualified(child), child["parent"]))
            return self.pick([[leave], [leave, Input("ALTER TABLE %s INHERIT %s" % (qualified(child), child["parent"]))]])
        if not cat["tables"]:
            return []
        parent = self.pick(cat["tables"])
        child = {"schema": parent["schema"], "name": self.fresh([t["name"] for t in cat["tables"]], TABLE_NAMES)}
        own = "" if self.one_in(2) else "%s integer DEFAULT 3" % ident(self.fresh([c["name"] for c in parent["columns"]]))
        return [Input("CREATE TABLE %s (%s) INHERITS (%s)" % (qualified(child), own, qualified(parent))),
                Input(self.alter(child, "REPLICA IDENTITY FULL"))]

    # --- constraints ---

    def constraints(self, cat, table):
        if not table["columns"]:
            return []
        c = self.pick(table["columns"])
        roll = self.rng.randrange(10)
        if roll < 3:
            return [Input(self.alter(table, "ADD CONSTRAINT %s CHECK (%s)%s%s" % (ident(self.fresh([])), self.check_of(c["name"]),
                    self.pick(["", " NO INHERIT"]), self.pick(["", " NOT VALID"]))))]
        if roll == 3 and cat["unvalidated"]:
            k = self.pick(cat["unvalidated"])
            return [Input("ALTER TABLE %s VALIDATE CONSTRAINT %s" % (k["table"], ident(k["name"])))]
        if roll == 4 and table["constraints"]:
            return [Input(self.alter(table, "RENAME CONSTRAINT %s TO %s" % (ident(self.pick(table["constraints"])["name"]), ident(self.fresh([])))))]
        if roll == 5 and table["constraints"]:
            return [Input(self.alter(table, "DROP CONSTRAINT " + ident(self.pick(table["constraints"])["name"]) + self.pick(["", " CASCADE"])))]
        keyed = [t for t in cat["tables"] if len(t["key"]) == 1]
        if roll < 9 and keyed:
            other = self.pick(keyed)
            types = {k["name"]: k["type"] for k in other["columns"]}
            same = [k for k in table["columns"] if k["type"] == types.get(other["key"][0])]
            if same:
                own = self.pick(same)["name"]
                fix = Input("UPDATE %s SET %s = NULL" % (qualified(table), ident(own)))
                add = Input(self.alter(table, "ADD CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s%s%s%s" % (
                    ident(self.fresh([])), ident(own), qualified(other), self.pick(["", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON UPDATE CASCADE"]),
                    self.pick(["", "", " DEFERRABLE INITIALLY DEFERRED"]), self.pick(["", "", " NOT VALID"]))))
                return [fix, add] if self.one_in(2) else [add]
        if c["type"] == "integer" and roll == 9:
            return [Input(self.alter(table, "ADD CONSTRAINT %s EXCLUDE USING btree (%s WITH =)%s" % (
                ident(self.fresh([])), ident(c["name"]), self.pick(["", " DEFERRABLE"]))))]
        return []

    def column_kinds(self, cat, table):
        """Generated columns and identity."""
        if not table["columns"]:
            return []
        names = [c["name"] for c in table["columns"]]
        c = self.pick(table["columns"])
        n = ident(c["name"])
        if c["generated"]:
            return [Input(self.alter(table, "ALTER COLUMN %s DROP EXPRESSION" % n))]
        if c["identity"]:
            return [Input(self.alter(table, "ALTER COLUMN %s %s" % (n, self.pick(
                ["DROP IDENTITY", "SET GENERATED ALWAYS", "SET GENERATED BY DEFAULT", "SET INCREMENT BY 2 SET CACHE 5"]))))]
        if c["type"] in ("smallint", "integer", "bigint") and c["notnull"] and self.one_in(2):
            return [Input(self.alter(table, "ALTER COLUMN %s ADD GENERATED %s AS IDENTITY" % (n, self.pick(["ALWAYS", "BY DEFAULT"]))))]
        plain = [k for k in table["columns"] if k["generated"] == "" and k["type"] in ("text", "integer", "bigint", "numeric(12,3)")]
        if plain:
            k = self.pick(plain)
            e = ident(k["name"])
            text = "text GENERATED ALWAYS AS (%s || 'x') STORED" % e if k["type"] == "text" else "numeric GENERATED ALWAYS AS (%s * 2.0) STORED" % e
            return [Input(self.alter(table, "ADD COLUMN %s %s" % (ident(self.fresh(names)), text)), (), {"rewrite"})]
        return []

    def schema_level(self, cat):
        schema = self.pick(cat["schemas"])
        if schema == "public":
            return [Input("CREATE SCHEMA " + ident(self.fresh(cat["schemas"])))] if len(cat["schemas"]) < 4 else []
        return [Input(self.pick(["ALTER SCHEMA %s RENAME TO %s" % (ident(schema), ident(self.fresh(cat["schemas"])))] * 2 +
                                ["DROP SCHEMA %s CASCADE" % ident(schema)]))]

    # --- definitions of the opt-in classes ---

    def definitions(self, cat, table):
        t, n = qualified(table), ident(self.fresh([], NAMES))
        c = self.pick(table["columns"])["name"] if table["columns"] else None
        schema = ident(table["schema"])
        choices = ["COMMENT ON TABLE %s IS %s" % (t, literal(self.pick(LABELS))), "GRANT SELECT ON %s TO PUBLIC" % t,
                   "REVOKE SELECT ON %s FROM PUBLIC" % t,
                   "CREATE FUNCTION %s.%s(x integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT x + %d'" % (schema, n, self.rng.randrange(9)),
                   "CREATE OR REPLACE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END %s'" % ("-- " + str(self.serial)),
                   "CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION public.f()" % (n, t),
                   "ALTER TABLE %s %s ROW LEVEL SECURITY" % (t, self.pick(["ENABLE", "DISABLE", "FORCE", "NO FORCE"])),
                   "CREATE POLICY %s ON %s USING (true)" % (n, t)]
        if c:
            e = ident(c)
            choices += ["CREATE VIEW %s.%s AS SELECT %s AS v FROM %s WHERE %s IS NOT NULL" % (schema, n, e, t, e),
                        "CREATE MATERIALIZED VIEW %s.%s AS SELECT %s AS v FROM %s WITH NO DATA" % (schema, n, e, t),
                        "COMMENT ON COLUMN %s.%s IS %s" % (t, e, literal(self.pick(LABELS))), "GRANT UPDATE (%s) ON %s TO PUBLIC" % (e, t),
                        "CREATE STATISTICS %s.%s ON %s, (%s::text) FROM %s" % (schema, n, e, e, t)]
        if cat["views"]:
            view = self.pick(cat["views"])
            word = "MATERIALIZED VIEW" if view["kind"] == "m" else "VIEW"
            choices += ["ALTER %s %s RENAME TO %s" % (word, qualified(view), n), "DROP %s %s" % (word, qualified(view)),
                        "COMMENT ON %s %s IS 'a view'" % (word, qualified(view))]
        if cat["triggers"]:
            trigger = self.pick(cat["triggers"])
            choices += ["ALTER TRIGGER %s ON %s RENAME TO %s" % (ident(trigger["name"]), trigger["table"], n),
                        "DROP TRIGGER %s ON %s" % (ident(trigger["name"]), trigger["table"]),
                        "ALTER TABLE %s DISABLE TRIGGER %s" % (trigger["table"], ident(trigger["name"]))]
        return [Input(self.pick(choices))]

    # --- the order of things ---

    def dml(self, cat, session="A"):
        if cat["partitioned"] and self.one_in(4):
            root = dict(self.pick(cat["partitioned"]), key=["id"])
            inputs = self.insert(cat, root) if self.one_in(2) else self.pick([self.update, self.delete])(cat, root)
            if inputs and self.one_in(2) and any(c["name"] == "at" for c in root["columns"]):   # to another partition
                inputs = [Input('UPDATE %s SET "at" = %d WHERE %s' % (qualified(root), self.rng.randrange(12) * 100, self.some_rows(root)))]
            for i in inputs:
                i.session = session
            return inputs
        return super().dml(cat, session)

    def ddl(self, cat):
        if not cat["tables"]:
            return super().ddl(cat)
        table = self.pick(cat["tables"])
        roll = self.rng.randrange(30)
        if roll < 5:
            return self.partitions(cat)
        if roll < 6:
            return self.inheritance(cat)
        if roll < 9:
            return self.constraints(cat, table)
        if roll < 11:
            return self.column_kinds(cat, table)
        if roll < 13:
            return self.more_types(cat)
        if roll < 14 and self.one_in(2):
            return self.schema_level(cat)
        if self.classes and roll < 18:
            return self.definitions(cat, table)
        return super().ddl(cat)
