/*
 * The base of a comparison of two sides that have no history in common.
 */
#include "core/difference_internal.hpp"

#include <utility>

#include "core/pure.hpp"

namespace schemasync::merge {

std::string
meaning(const state::Constraint &constraint)
{
	std::string_view text = constraint.definition;
	/* keys do not change in this way */
	if (constraint.type == 'f' || constraint.type == 'c' || constraint.type == 'n')
		for (bool again = true; again;) {
			again = false;
			for (std::string_view state : {" NOT VALID", " NOT ENFORCED", " NO INHERIT", " INITIALLY DEFERRED", " DEFERRABLE"})
				if (text.ends_with(state)) {
					text.remove_suffix(state.size());
					again = true;
				}
		}
	return sql::flatten(text);
}

namespace {

bool
same_expression_text(const std::optional<state::Expression> &a, const std::optional<state::Expression> &b)
{
	return a && b && a->sql == b->sql;
}

class EarlierMaker {
public:
	EarlierMaker(const RelationInput &input, const LocalFacts &facts)
	    : theirs_(*input.theirs), ours_(*input.ours), facts_(facts), map_(input.columns)
	{
	}

	state::Relation
	relation()
	{
		state::Relation base = ours_;
		base.name.oid = theirs_.name.oid;
		base.of_type = theirs_.of_type && ours_.of_type ? theirs_.of_type : ours_.of_type;
		base.extension = theirs_.extension;
		base.published_columns = theirs_.published_columns;
		base.published_filter = theirs_.published_filter;
		base.published_via_root = theirs_.published_via_root;
		base.identity_columns = theirs_.identity_columns;
		base.filenode = theirs_.filenode;
		base.fingerprint.clear();
		if (base.partition_key == theirs_.partition_key)
			base.partition_key_expr = theirs_.partition_key_expr;
		base.parents = parents();
		base.columns = columns();
		base.constraints = constraints();
		base.indexes = indexes();
		base.replica_identity_index = 0;
		for (std::size_t i = 0; i < base.indexes.size(); i++)
			if (base.indexes[i].replica_identity)
				base.replica_identity_index = base.indexes[i].oid;
		return base;
	}

	/* Of base and ours, the subscriber's own columns among them. */
	const ColumnMap &
	map() const
	{
		return map_;
	}

	bool
	retyped() const
	{
		return retyped_;
	}

private:
	bool
	is_child() const
	{
		return !theirs_.parents.empty() && !ours_.parents.empty();
	}

	AttrNumber
	publisher_of(AttrNumber local) const
	{
		for (const auto &[publisher, subscriber] : map_.pairs)
			if (subscriber == local)
				return publisher;
		return 0;
	}

	std::vector<AttrNumber>
	translated(const std::vector<AttrNumber> &columns) const
	{
		std::vector<AttrNumber> result;
		for (AttrNumber attnum : columns)
			result.push_back(attnum > 0 ? publisher_of(attnum) : attnum);
		return result;
	}

	/* Whether it is about columns that the publisher describes. */
	bool
	is_described(const std::vector<AttrNumber> &columns) const
	{
		return !theirs_.published_columns || std::all_of(columns.begin(), columns.end(), [&](AttrNumber attnum) {
			return attnum > 0 && publisher_of(attnum) != 0;
		});
	}

	std::vector<state::Name>
	parents() const
	{
		std::vector<state::Name> result;
		for (state::Name parent : ours_.parents) {
			parent.oid = own_oids + parent.oid;
			for (const state::Name &other : theirs_.parents)
				if (other.schema == parent.schema && other.name == parent.name)
					parent = other;
			result.push_back(parent);
		}
		return result;
	}

	bool
	same_type(const state::TypeRef &theirs, const state::TypeRef &ours) const
	{
		if (theirs.typmod != ours.typmod || theirs.element.size() != ours.element.size())
			return false;
		if (!theirs.element.empty())
			return same_type(theirs.element[0], ours.element[0]);
		if (theirs.builtin || ours.builtin)
			return theirs.builtin && ours.builtin && theirs.oid == ours.oid;
		if (Oid mapped = facts_.local_type(theirs.oid); mapped != 0)
			return mapped == ours.oid;
		return theirs.schema == ours.schema && theirs.name == ours.name;
	}

	state::Column
	column(const state::Column &theirs, const state::Column &ours)
	{
		state::Column base = ours;
		base.attnum = theirs.attnum;
		base.missing = theirs.missing;
		base.domain_default = theirs.domain_default;
		base.local = theirs.local;
		base.inhcount = theirs.inhcount;
		bool inherited = theirs.inhcount > 0 && is_child();
		if (inherited)
			base.name = theirs.name;
		if (inherited || same_type(theirs.type, ours.type))
			base.type = theirs.type;
		else if (!ours.type.builtin)
			base.type.oid = own_oids + ours.type.oid;
		retyped_ = retyped_ || (!inherited && !same_type(theirs.type, ours.type));
		if (inherited)
			base.collation = theirs.collation;
		if (same_expression_text(base.default_expr, theirs.default_expr))
			base.default_expr = theirs.default_expr;
		if (base.sequence && theirs.sequence)
			base.sequence->name.oid = theirs.sequence->name.oid;
		return base;
	}

	std::vector<state::Column>
	columns()
	{
		std::vector<state::Column> result;
		for (const state::Column &theirs : theirs_.columns) {
			const state::Column *ours = nullptr;
			for (const auto &[publisher, subscriber] : map_.pairs)
				if (publisher == theirs.attnum)
					ours = find_column(ours_, subscriber);
			if (ours != nullptr)
				result.push_back(column(theirs, *ours));
			else if (theirs.inhcount > 0 && is_child())
				result.push_back(theirs); /* it comes with the parent's */
		}
		for (const state::Column &ours : ours_.columns) {
			/* what the publisher does not publish, it may still have */
			if (publisher_of(ours.attnum) != 0 || theirs_.published_columns || (ours.inhcount > 0 && is_child()))
				continue;
			state::Column base = ours;
			base.attnum = static_cast<AttrNumber>(own_attnums + ours.attnum);
			map_.pairs.emplace_back(base.attnum, ours.attnum);
			result.push_back(std::move(base));
		}
		std::stable_sort(result.begin(), result.end(), [](const auto &a, const auto &b) { return a.attnum < b.attnum; });
		return result;
	}

	/* Names of columns as the publisher has them. */
	std::string
	renamed(std::string_view text) const
	{
		auto all = sql::tokens(text);
		if (!all)
			return std::string(text);
		std::string result;
		std::size_t copied = 0;
		for (std::size_t i = 0; i < all->size(); i++) {
			const sql::Token &token = (*all)[i];
			bool call = i + 1 < all->size() && (*all)[i + 1].text == "(";
			if (call || (token.kind != sql::Token::Kind::Word && token.kind != sql::Token::Kind::QuotedWord))
				continue;
			for (const auto &[publisher, subscriber] : map_.pairs) {
				const state::Column *theirs = find_column(theirs_, publisher);
				const state::Column *ours = find_column(ours_, subscriber);
				if (theirs == nullptr || ours == nullptr || theirs->name == ours->name ||
				    (token.text != ours->name && token.text != sql::ident(ours->name)))
					continue;
				auto at = static_cast<std::size_t>(token.text.data() - text.data());
				result.append(text.substr(copied, at - copied)).append(sql::shown(theirs->name));
				copied = at + token.text.size();
				break;
			}
		}
		result.append(text.substr(copied));
		return result;
	}

	bool
	same_constraint(const state::Constraint &theirs, const state::Constraint &ours) const
	{
		return theirs.type == ours.type && meaning(theirs) == renamed(meaning(ours));
	}

	std::vector<state::Constraint>
	constraints() const
	{
		std::vector<state::Constraint> result;
		std::vector<const state::Constraint *> used;
		auto pair = [&](const state::Constraint &theirs, const state::Constraint &ours) {
			state::Constraint base = theirs;
			base.name = ours.name;
			base.validated = ours.validated;
			base.deferrable = ours.deferrable;
			base.deferred = ours.deferred;
			base.no_inherit = ours.no_inherit;
			base.definition = ours.definition;
			used.push_back(&ours);
			result.push_back(std::move(base));
		};
		for (const state::Constraint &theirs : theirs_.constraints) {
			const state::Constraint *named = find_named(ours_.constraints, theirs.name);
			const state::Constraint *match = named != nullptr && same_constraint(theirs, *named) ? named : nullptr;
			for (const state::Constraint &ours : ours_.constraints)
				if (match == nullptr && named == nullptr && same_constraint(theirs, ours) &&
				    find_named(theirs_.constraints, ours.name) == nullptr &&
				    std::find(used.begin(), used.end(), &ours) == used.end())
					match = &ours;
			if (match != nullptr)
				pair(theirs, *match);
			else if ((theirs.parent != 0 || theirs.inhcount > 0) && is_child())
				result.push_back(theirs); /* it comes with the parent's */
		}
		for (const state::Constraint &ours : ours_.constraints) {
			if (std::find(used.begin(), used.end(), &ours) != used.end() || ours.type == 'n' ||
			    ((ours.parent != 0 || ours.inhcount > 0) && is_child()) || !is_described(ours.columns))
				continue;
			state::Constraint base = ours;
			base.oid = own_oids + ours.oid;
			base.columns = translated(ours.columns);
			result.push_back(std::move(base));
		}
		return result;
	}

	bool
	same_index(const state::Index &theirs, const state::Index &ours) const
	{
		/* one whose building failed, or goes on, is not there; that of a partitioned table lacks some partition's */
		return (ours.valid || !theirs.valid || ours_.relkind == 'p') && theirs.unique == ours.unique && (theirs.constraint == 0) == (ours.constraint == 0) &&
		       sql::from_word(theirs.definition, "USING") == renamed(sql::from_word(ours.definition, "USING"));
	}

	std::vector<state::Index>
	indexes() const
	{
		std::vector<state::Index> result;
		std::vector<const state::Index *> used;
		for (const state::Index &theirs : theirs_.indexes) {
			const state::Index *named = find_named(ours_.indexes, theirs.name);
			const state::Index *match = named != nullptr && same_index(theirs, *named) ? named : nullptr;
			for (const state::Index &ours : ours_.indexes)
				if (match == nullptr && named == nullptr && same_index(theirs, ours) &&
				    find_named(theirs_.indexes, ours.name) == nullptr &&
				    std::find(used.begin(), used.end(), &ours) == used.end())
					match = &ours;
			if (match != nullptr) {
				state::Index base = theirs;
				base.name = match->name;
				base.valid = true;
				base.replica_identity = match->replica_identity;
				used.push_back(match);
				result.push_back(std::move(base));
			} else if (theirs.parent != 0 && is_child()) {
				result.push_back(theirs); /* it comes with the parent's */
			}
		}
		for (const state::Index &ours : ours_.indexes) {
			if (std::find(used.begin(), used.end(), &ours) != used.end() || (ours.parent != 0 && is_child()) ||
			    !is_described(ours.columns))
				continue;
			state::Index base = ours;
			base.oid = own_oids + ours.oid;
			base.columns = translated(ours.columns);
			if (base.constraint != 0)
				base.constraint += own_oids;
			result.push_back(std::move(base));
		}
		return result;
	}

	const state::Relation &theirs_;
	const state::Relation &ours_;
	const LocalFacts &facts_;
	ColumnMap map_;
	bool retyped_ = false;
};

} // namespace

Earlier
earlier_of(const RelationInput &input, const LocalFacts &facts)
{
	EarlierMaker maker(input, facts);
	Earlier earlier;

	earlier.relation = maker.relation();
	earlier.map = maker.map();
	earlier.retyped = maker.retyped();
	return earlier;
}

} // namespace schemasync::merge
