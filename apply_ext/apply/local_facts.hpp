/*
 * Answers the merge's questions about the subscriber from its catalog.
 *
 * Zone: server code; throws pg::Error through the merge, which keeps nothing but values.
 */
#pragma once

#include "core/facts.hpp"

#include <cstdint>

namespace schemasync::apply {

class CatalogFacts final : public merge::LocalFacts {
public:
	explicit CatalogFacts(std::int64_t subid) : subid_(subid) {}

	bool schema_exists(std::string_view schema) const override;
	bool relation_exists(std::string_view schema, std::string_view name) const override;
	char relation_kind(std::string_view schema, std::string_view name) const override;
	bool table_exists(std::string_view schema, std::string_view name) const override;
	bool type_exists(std::string_view schema, std::string_view name) const override;
	char type_kind(std::string_view schema, std::string_view name) const override;
	std::optional<state::TypeRef> domain_base(std::string_view schema, std::string_view name) const override;
	bool own_cast(const state::TypeRef &from, const state::TypeRef &to) const override;
	bool collation_exists(std::string_view name) const override;
	bool role_exists(std::string_view name) const override;
	std::optional<state::Name> local_relation(state::Oid publisher_oid) const override;
	state::Oid local_type(state::Oid publisher_oid) const override;
	std::optional<state::Name> local_type_name(state::Oid publisher_oid) const override;
	std::optional<state::TypeRef> publisher_domain_base(state::Oid publisher_oid) const override;
	std::optional<std::string> digest(const state::Reference &reference) const override;
	std::vector<merge::Dependent> dependents(const state::Relation &relation,
	                                         state::AttrNumber attnum) const override;
	std::vector<merge::Dependent> type_dependents(std::string_view schema,
	                                              std::string_view name) const override;
	int server_version() const override;
	/* Of a local type; nullopt: there is none of that oid. */
	std::optional<state::Name> type_name(state::Oid oid) const;

private:
	std::int64_t subid_;
};

} // namespace schemasync::apply
