/*
 * What schemasync_check and the guard know of a subscriber: that its types are this database's, and nothing is in the way.
 *
 * Zone: server code; throws pg::Error through the merge, which keeps nothing but values.
 */
#pragma once

#include "apply_ext/apply/local_facts.hpp"

namespace schemasync::capture {

class OwnFacts final : public merge::LocalFacts {
public:
	char
	type_kind(std::string_view schema, std::string_view name) const override
	{
		return catalog_.type_kind(schema, name);
	}
	std::optional<state::TypeRef>
	domain_base(std::string_view schema, std::string_view name) const override
	{
		return catalog_.domain_base(schema, name);
	}
	/* the publisher's types are here */
	std::optional<state::Name>
	local_type_name(state::Oid oid) const override
	{
		return catalog_.type_name(oid);
	}
	std::optional<state::TypeRef>
	publisher_domain_base(state::Oid oid) const override
	{
		auto name = catalog_.type_name(oid);
		return name ? catalog_.domain_base(name->schema, name->name) : std::nullopt;
	}
	bool
	own_cast(const state::TypeRef &from, const state::TypeRef &to) const override
	{
		return catalog_.own_cast(from, to);
	}

private:
	apply::CatalogFacts catalog_{0};
};

} // namespace schemasync::capture
