/*
 * The reader of states and messages: what it gives, its defaults, and what it refuses with which path.
 */
#include "core/state_json.hpp"

#include <gtest/gtest.h>

namespace {

using namespace schemasync;
using namespace schemasync::state;

const std::string relation_text = R"json({"kind":"relation","oid":1000,"schema":"public","name":"t","relkind":"r","persistence":"p","owner":"app",
 "replica_identity":"d","replica_identity_index":1001,"identity_columns":[1],"access_method":"heap","options":["fillfactor=70"],
 "parents":[{"oid":5,"schema":"public","name":"root"}],"partition_bound":"FOR VALUES IN (1)",
 "published":{"columns":[1,2],"filter":true,"via_root":true},
 "columns":[
  {"attnum":1,"name":"id","type":{"oid":20,"schema":"pg_catalog","name":"int8","typmod":-1,"sql":"bigint","builtin":true},"not_null":true,
   "identity":"a","sequence":{"oid":7,"schema":"public","name":"t_id_seq","type":"bigint","start":1,"increment":1,"min":1,
   "max":9223372036854775807,"cache":1,"cycle":false},"storage":"p"},
  {"attnum":3,"name":"é","type":{"oid":90,"schema":"public","name":"mood","sql":"public.mood"},
   "default":{"sql":"public.f()","volatility":"s","refs":[{"kind":"function","name":"public.f()","digest":"00aa"}]},
   "missing":"x","future":{"a":[1,2]}}],
 "constraints":[{"oid":8,"name":"t_pkey","type":"p","definition":"PRIMARY KEY (id)","columns":[1],"index":1001}],
 "indexes":[{"oid":1001,"schema":"public","name":"t_pkey","definition":"CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)",
  "unique":true,"primary":true,"columns":[1],"constraint":8}],
 "fingerprint":"0123456789abcdef","filenode":55,"created_here":true
})json";

template <typename T>
std::string
error_of(const Parsed<T> &parsed)
{
	const auto *error = std::get_if<ParseError>(&parsed);
	return error == nullptr ? "" : error->where + " " + error->what;
}

std::string
replaced(std::string text, const std::string &what, const std::string &with)
{
	std::size_t at = text.find(what);
	EXPECT_NE(at, std::string::npos) << what;
	return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

TEST(StateJson, ReadsARelation)
{
	Parsed<Relation> parsed = parse_relation(relation_text);
	ASSERT_EQ(error_of(parsed), "");
	const Relation &relation = std::get<Relation>(parsed);
	EXPECT_EQ(relation.name, (Name{1000, "public", "t"}));
	EXPECT_EQ(relation.identity_columns, std::vector<AttrNumber>{1});
	EXPECT_EQ(relation.published_columns->size(), 2u);
	EXPECT_TRUE(relation.published_filter && relation.published_via_root && relation.created_here);
	EXPECT_EQ(relation.filenode, 55u);
	ASSERT_EQ(relation.columns.size(), 2u);
	EXPECT_EQ(relation.columns[0].sequence->max, INT64_MAX);
	EXPECT_EQ(relation.columns[0].identity, 'a');
	EXPECT_TRUE(relation.columns[0].local);
	const Column &second = relation.columns[1];
	EXPECT_EQ(second.name, "é");
	EXPECT_EQ(second.missing, "x");
	EXPECT_EQ(second.type.typmod, -1);
	EXPECT_FALSE(second.type.builtin);
	EXPECT_EQ(second.default_expr->volatility, 's');
	EXPECT_EQ(second.default_expr->refs[0].digest, "00aa");
	EXPECT_EQ(second.statistics, -1);
	EXPECT_TRUE(relation.constraints[0].validated);
	EXPECT_TRUE(relation.indexes[0].valid && relation.indexes[0].primary);
}

TEST(StateJson, NamesWhatIsWrong)
{
	auto error = [](const std::string &what, const std::string &with) {
		return error_of(parse_relation(replaced(relation_text, what, with)));
	};
	EXPECT_EQ(error("\"attnum\":3", "\"attnum\":0"), "$.columns[1].attnum is out of range");
	EXPECT_EQ(error("\"attnum\":3", "\"attnum\":70000"), "$.columns[1].attnum is out of range");
	EXPECT_EQ(error("\"attnum\":3", "\"attnum\":\"3\""), "$.columns[1].attnum is not an integer");
	EXPECT_EQ(error("\"attnum\":3", "\"attnum\":3.5"), "$.columns[1].attnum is not an integer");
	EXPECT_EQ(error("\"attnum\":3", "\"attnum\":1"), "$.columns is not in the order of attnum");
	EXPECT_EQ(error("\"attnum\":3,", ""), "$.columns[1].attnum is missing");
	EXPECT_EQ(error("\"name\":\"é\"", "\"name\":\"id\""), "$.columns has a name twice");
	EXPECT_EQ(error("\"name\":\"é\"", "\"name\":\"\""), "$.columns[1].name is empty");
	EXPECT_EQ(error("\"name\":\"é\"", "\"name\":\"a\\u0000b\""), "$.columns[1].name has a zero byte");
	EXPECT_EQ(error("\"name\":\"é\"", "\"name\":\"\xff\""), "$ is not valid JSON");
	EXPECT_EQ(error("\"volatility\":\"s\"", "\"volatility\":\"q\""),
	          "$.columns[1].default.volatility is not a letter that is known here");
	EXPECT_EQ(error("\"oid\":1000", "\"oid\":-1"), "$.oid is out of range");
	EXPECT_EQ(error("\"oid\":1000", "\"oid\":4294967296"), "$.oid is out of range");
	EXPECT_EQ(error("\"not_null\":true", "\"not_null\":1"), "$.columns[0].not_null is not a boolean");
	EXPECT_EQ(error("\"identity_columns\":[1]", "\"identity_columns\":1"),
	          "$.identity_columns is not an array");
	EXPECT_EQ(error("{\"oid\":90,\"schema\":\"public\",\"name\":\"mood\",\"sql\":\"public.mood\"}", "5"),
	          "$.columns[1].type is not an object");
}

TEST(StateJson, RefusesWhatIsNoDocument)
{
	EXPECT_EQ(error_of(parse_relation("")), "$ is not valid JSON");
	EXPECT_EQ(error_of(parse_relation("[]")), "$ is not an object");
	EXPECT_EQ(error_of(parse_relation("null")), "$ is not an object");
	EXPECT_EQ(error_of(parse_relation(std::string(100000, '['))), "$ is nested too deeply");
	EXPECT_EQ(error_of(parse_relation(relation_text + "x")), "$ is not valid JSON");
	for (std::size_t length = 0; length < relation_text.size(); length++)
		EXPECT_NE(error_of(parse_relation(std::string_view(relation_text).substr(0, length))), "");
}

TEST(StateJson, ReadsMessages)
{
	auto state = parse_state_message(
	    "{\"v\":1,\"relation\":" + relation_text +
	    ",\"types\":[{\"kind\":\"type\",\"oid\":90,\"schema\":\"public\",\"name\":\"mood\",\"typtype\":\"e\","
	    "\"labels\":[{\"oid\":1,\"label\":\"a\"}]}],\"provenance\":\"inferred\"}");
	ASSERT_EQ(error_of(state), "");
	EXPECT_EQ(std::get<StateMessage>(state).types[0].value.labels[0].label, "a");
	/* the text that is stored says the same */
	EXPECT_EQ(error_of(parse_relation(std::get<StateMessage>(state).relation.text)), "");
	EXPECT_EQ(error_of(parse_state_message("{\"v\":2}")), "$.v is a version that is not known");

	auto ddl = parse_ddl_message(
	    R"json({"v":1,"tag":"ALTER TABLE","statement":"alter ...","user":"u","settings":{"TimeZone":"UTC","x":null},
		"subcommands":["AT_AddColumn"],"using":[{"relation":1,"attnum":2,"given":true,"expr":null}],
		"rewrites":[{"relation":1,"reason":2,"rows":5,"carried":true}],
		"objects":[{"class":"pg_class","oid":1,"subid":0,"type":"table","schema":"s","identity":"s.t","extension":false}],
		"dropped":[{"class":"pg_class","oid":2,"subid":3,"type":"table column","schema":null,"name":null,"identity":"s.t.c","original":true}],
		"schemas":[{"kind":"schema","oid":3,"name":"s","owner":"o"}],"relations":[)json" +
	    relation_text + "]}");
	ASSERT_EQ(error_of(ddl), "");
	const DdlMessage &message = std::get<DdlMessage>(ddl);
	EXPECT_TRUE(message.command.captured);
	EXPECT_EQ(message.command.settings.size(), 1u);
	EXPECT_TRUE(message.command.using_hints[0].given && !message.command.using_hints[0].expr);
	EXPECT_EQ(message.command.rewrites[0].rows, 5);
	EXPECT_EQ(message.command.dropped[0].subid, 3);
	EXPECT_EQ(message.schemas[0].value.name.name, "s");
	EXPECT_EQ(message.relations.size(), 1u);

	auto rewrite = parse_rewrite_message(
	    "{\"v\":1,\"relation\":1000,\"transient\":9,\"carried\":true,\"state\":" + relation_text + "}");
	ASSERT_EQ(error_of(rewrite), "");
	EXPECT_TRUE(std::get<RewriteMessage>(rewrite).carried);
	EXPECT_EQ(error_of(parse_rewrite_message("{\"v\":1,\"relation\":1000}")), "$.state is missing");
}

TEST(StateJson, ReadsTypes)
{
	auto domain = parse_type(R"json({"oid":1,"schema":"s","name":"d","typtype":"d","base":{"oid":25,"schema":"pg_catalog","name":"text","sql":"text",
		"builtin":true},"not_null":true,"constraints":[{"oid":2,"name":"c","type":"c","definition":"CHECK (true)"}]
})json");
	ASSERT_EQ(error_of(domain), "");
EXPECT_EQ(std::get<Type>(domain).base.name, "text");
EXPECT_EQ(error_of(parse_type(R"json({"oid":1,"schema":"s","name":"d","typtype":"d"})json")), "$.base is missing");
auto composite = parse_type(
    R"json({"oid":1,"schema":"s","name":"d","typtype":"c","attributes":[{"attnum":1,"name":"x","type":{"oid":23,
		"schema":"pg_catalog","name":"int4","sql":"integer","builtin":true}}],"relation":{"oid":5,"schema":"s","name":"d"}})json");
ASSERT_EQ(error_of(composite), "");
EXPECT_TRUE(std::get<Type>(composite).row_type_of.has_value());
}

} // namespace
