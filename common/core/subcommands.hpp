/*
 * Every subcommand of ALTER TABLE that a supported server has, and the operations of the catalog (operation.hpp) that
 * what it does can come out as. A marker's subcommands are only told to people; this table is what shows that none
 * is forgotten: a test compares it with the enum in the headers of the server that is built against.
 *
 * Zone: core.
 */
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/pure.hpp"

namespace schemasync {

struct Subcommand {
	std::string_view name;       /* in the server's enum, without "Recurse" at the end */
	std::string_view operations; /* codes, separated by blanks; empty: no state shows it */
	std::string_view remark;     /* why there is none, or what else is to be known */
	int since = 0;               /* server major version that has it first; 0: all that are supported */
};

/* In the order of their names. */
inline constexpr std::array subcommands{
    Subcommand{"AT_AddColumn", "add_column alter_sequence", ""},
    Subcommand{"AT_AddColumnToView", "", "views are followed by their definition"},
    Subcommand{"AT_AddConstraint", "add_primary_key add_unique add_check add_foreign_key add_exclusion add_not_null_constraint set_not_null", ""},
    Subcommand{"AT_AddIdentity", "add_identity set_not_null", ""},
    Subcommand{"AT_AddIndex", "create_index add_primary_key add_unique add_exclusion", ""},
    Subcommand{"AT_AddIndexConstraint", "add_primary_key add_unique rename_index", ""},
    Subcommand{"AT_AddInherit", "change_parents", ""},
    Subcommand{"AT_AddOf", "change_table_type", ""},
    Subcommand{"AT_AlterColumnGenericOptions", "", "foreign tables are not replicated"},
    Subcommand{"AT_AlterColumnType", "alter_column_type rewrite_column", ""},
    Subcommand{"AT_AlterConstraint", "alter_constraint", ""},
    Subcommand{"AT_AttachPartition", "attach_partition", ""},
    Subcommand{"AT_ChangeOwner", "change_table_owner", ""},
    Subcommand{"AT_CheckNotNull", "", "internal: part of adding a primary key to a parent"},
    Subcommand{"AT_ClusterOn", "", "the physical order is a matter of each server"},
    Subcommand{"AT_ColumnDefault", "set_default drop_default", ""},
    Subcommand{"AT_CookedColumnDefault", "set_default", "CREATE TABLE LIKE"},
    Subcommand{"AT_DetachPartition", "detach_partition", ""},
    Subcommand{"AT_DetachPartitionFinalize", "detach_partition", ""},
    Subcommand{"AT_DisableRowSecurity", "set_row_security", ""},
    Subcommand{"AT_DisableRule", "", "rules are followed by their definition"},
    Subcommand{"AT_DisableTrig", "", "triggers are followed by their definition"},
    Subcommand{"AT_DisableTrigAll", "", "triggers are followed by their definition"},
    Subcommand{"AT_DisableTrigUser", "", "triggers are followed by their definition"},
    Subcommand{"AT_DropCluster", "", "the physical order is a matter of each server"},
    Subcommand{"AT_DropColumn", "drop_column", ""},
    Subcommand{"AT_DropConstraint", "drop_constraint drop_not_null drop_index", ""},
    Subcommand{"AT_DropExpression", "drop_expression", ""},
    Subcommand{"AT_DropIdentity", "drop_identity", ""},
    Subcommand{"AT_DropInherit", "change_parents", ""},
    Subcommand{"AT_DropNotNull", "drop_not_null drop_constraint", ""},
    Subcommand{"AT_DropOf", "change_table_type", ""},
    Subcommand{"AT_DropOids", "", "does nothing since 12"},
    Subcommand{"AT_EnableAlwaysRule", "", "rules are followed by their definition"},
    Subcommand{"AT_EnableAlwaysTrig", "", "triggers are followed by their definition"},
    Subcommand{"AT_EnableReplicaRule", "", "rules are followed by their definition"},
    Subcommand{"AT_EnableReplicaTrig", "", "triggers are followed by their definition"},
    Subcommand{"AT_EnableRowSecurity", "set_row_security", ""},
    Subcommand{"AT_EnableRule", "", "rules are followed by their definition"},
    Subcommand{"AT_EnableTrig", "", "triggers are followed by their definition"},
    Subcommand{"AT_EnableTrigAll", "", "triggers are followed by their definition"},
    Subcommand{"AT_EnableTrigUser", "", "triggers are followed by their definition"},
    Subcommand{"AT_ForceRowSecurity", "set_row_security", ""},
    Subcommand{"AT_GenericOptions", "", "foreign tables are not replicated"},
    Subcommand{"AT_NoForceRowSecurity", "set_row_security", ""},
    Subcommand{"AT_ReAddComment", "", "internal: part of a type change"},
    Subcommand{"AT_ReAddConstraint", "", "internal: part of a type change; the constraint gets another oid"},
    Subcommand{"AT_ReAddDomainConstraint", "", "internal: part of a type change; the constraint gets another oid"},
    Subcommand{"AT_ReAddIndex", "", "internal: part of a type change; the index gets another oid"},
    Subcommand{"AT_ReAddStatistics", "", "internal: part of a type change"},
    Subcommand{"AT_ReplaceRelOptions", "", "CREATE OR REPLACE VIEW"},
    Subcommand{"AT_ReplicaIdentity", "set_replica_identity", ""},
    Subcommand{"AT_ResetOptions", "set_column_options", ""},
    Subcommand{"AT_ResetRelOptions", "set_table_options", ""},
    Subcommand{"AT_SetAccessMethod", "set_access_method rewrite_rows", ""},
    Subcommand{"AT_SetCompression", "set_compression", ""},
    Subcommand{"AT_SetExpression", "set_expression rewrite_rows", "", 17},
    Subcommand{"AT_SetIdentity", "alter_identity alter_sequence", ""},
    Subcommand{"AT_SetLogged", "set_persistence rewrite_rows", ""},
    Subcommand{"AT_SetNotNull", "set_not_null add_not_null_constraint", ""},
    Subcommand{"AT_SetOptions", "set_column_options", ""},
    Subcommand{"AT_SetRelOptions", "set_table_options alter_index", ""},
    Subcommand{"AT_SetStatistics", "set_statistics alter_index", ""},
    Subcommand{"AT_SetStorage", "set_storage", ""},
    Subcommand{"AT_SetTableSpace", "", "where the files lie is a matter of each server"},
    Subcommand{"AT_SetUnLogged", "set_persistence rewrite_rows", ""},
    Subcommand{"AT_ValidateConstraint", "validate_constraint", ""},
};

namespace detail {
constexpr bool
subcommands_are_sorted()
{
	for (std::size_t i = 1; i < subcommands.size(); i++) {
		if (!(subcommands[i - 1].name < subcommands[i].name))
			return false;
	}
	return true;
}
} // namespace detail
static_assert(detail::subcommands_are_sorted());

/* returns: nullptr for a name that is not in the table */
constexpr const Subcommand *
find_subcommand(std::string_view name)
{
	for (const Subcommand &subcommand : subcommands) {
		if (subcommand.name == name)
			return &subcommand;
	}
	return nullptr;
}

} // namespace schemasync
