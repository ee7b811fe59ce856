#include "core/operation.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

constexpr std::string_view exclusive = "ACCESS EXCLUSIVE";
constexpr std::string_view share_exclusive = "SHARE UPDATE EXCLUSIVE";
constexpr std::string_view row_exclusive = "SHARE ROW EXCLUSIVE";
constexpr Severity quiet = Severity::Info;
constexpr Severity warn = Severity::Warn;
constexpr Severity critical = Severity::Critical;

constexpr std::string_view table_oid = "table oid";
constexpr std::string_view attnum = "attnum";
constexpr std::string_view constraint_oid = "constraint oid";
constexpr std::string_view index_oid = "index oid";
constexpr std::string_view type_oid = "type oid";
constexpr std::string_view object_oid = "object oid";

} // namespace

/* op, code, object type, proof, default action, condition, otherwise, lock, cost, severity, since */
constinit const std::array<OperationInfo, static_cast<std::size_t>(Op::count_)> operations{{
    {Op::CreateTable, "create_table", "table", table_oid, "forward",
     "no table of that name is there, or one of the same shape",
     "local_name_taken, missing_object, unsupported_object", "", "", quiet, 0},
    {Op::DropTable, "drop_table", "table", "table oid is gone", "forward",
     "drop_table = forward and nothing else depends on it", "policy_refuse, local_dependents", exclusive, "",
     critical, 0},
    {Op::RenameTable, "rename_table", "table", table_oid, "forward", "always",
     "local_name_taken, local_drift", exclusive, "", warn, 0},
    {Op::SetTableSchema, "set_table_schema", "table", table_oid, "forward", "the schema is there",
     "local_name_taken, missing_object, local_drift", exclusive, "", warn, 0},
    {Op::ChangeTableOwner, "change_table_owner", "table", table_oid, "ignore", "owners = same",
     "missing_object", exclusive, "", quiet, 0},
    {Op::SetPersistence, "set_persistence", "table", table_oid, "forward",
     "unlogged: always; logged: no row was in it, or rewrites = carry", "rewrite_unproven", exclusive,
     "rewrite", warn, 0},
    {Op::SetAccessMethod, "set_access_method", "table", table_oid, "forward", "always", "apply_failed",
     exclusive, "rewrite", warn, 0},
    {Op::SetTableOptions, "set_table_options", "table", table_oid, "forward", "always", "", share_exclusive,
     "", quiet, 0},
    {Op::SetRowSecurity, "set_row_security", "table", table_oid, "forward", "always", "", exclusive, "", warn,
     0},
    {Op::SetReplicaIdentity, "set_replica_identity", "table", table_oid, "forward",
     "always; the index is there", "missing_object", exclusive, "", quiet, 0},
    {Op::AttachPartition, "attach_partition", "table", "oids of both tables", "forward",
     "the parent is there", "missing_object", share_exclusive, "scan", warn, 0},
    {Op::DetachPartition, "detach_partition", "table", "oids of both tables", "forward", "always", "",
     exclusive, "", warn, 0},
    {Op::ChangeParents, "change_parents", "table", "oids of both tables", "forward", "the parent is there",
     "missing_object", exclusive, "", warn, 0},
    {Op::ChangeTableType, "change_table_type", "table", "oids of table and type", "forward",
     "the type is there", "missing_object", exclusive, "", quiet, 0},
    {Op::RewriteRows, "rewrite_rows", "table", "rewrite notice", "refuse", "rewrites = carry",
     "rewrite_unproven", exclusive, "rewrite", critical, 0},
    {Op::PublishTable, "publish_table", "table", table_oid, "forward",
     "auto_refresh: made and copied beside the stream; else it waits for schemasync_refresh", "policy_refuse", "", "", quiet,
     0},
    {Op::UnpublishTable, "unpublish_table", "table", table_oid, "ignore", "the table stays, and is left alone", "", "", "",
     warn, 0},
    {Op::RepublishTable, "republish_table", "table", table_oid, "forward",
     "auto_refresh: all rows are copied afresh beside the stream; else it waits for schemasync_refresh", "policy_refuse",
     "ROW EXCLUSIVE", "copy", warn, 0},

    {Op::AddColumn, "add_column", "column", "new attnum", "forward",
     "no default or an immutable one; a stable one pinned to the publisher's stored value; volatile, serial "
     "and identity with no row "
     "in the table or rewrites = carry",
     "volatile_default, default_unreadable, missing_object, local_name_taken", exclusive, "", quiet, 0},
    {Op::DropColumn, "drop_column", "column", "attnum is gone", "forward",
     "drop_column = forward and no local object depends on it",
     "policy_refuse, local_dependents, rename_unproven", exclusive, "", critical, 0},
    {Op::RenameColumn, "rename_column", "column", "same attnum, same table oid", "forward", "always",
     "local_name_taken, local_drift, rename_unproven", exclusive, "", warn, 0},
    {Op::AlterColumnType, "alter_column_type", "column", attnum, "forward",
     "no rewrite, or a cast that is known and no USING, or a captured USING that is proven, or rewrites = "
     "carry",
     "type_change_unproven, local_drift, local_dependents, missing_object", exclusive, "rewrite", warn, 0},
    {Op::RewriteColumn, "rewrite_column", "column", "captured USING on the same type", "forward",
     "a captured USING that is proven, or rewrites = carry", "rewrite_unproven, local_drift", exclusive,
     "rewrite", critical, 0},
    {Op::SetNotNull, "set_not_null", "column", attnum, "forward", "always; existing rows are checked",
     "apply_failed", exclusive, "scan", warn, 0},
    {Op::DropNotNull, "drop_not_null", "column", attnum, "forward", "always", "", exclusive, "", quiet, 0},
    {Op::SetDefault, "set_default", "column", attnum, "forward", "what it refers to is there",
     "missing_object", exclusive, "", quiet, 0},
    {Op::DropDefault, "drop_default", "column", attnum, "forward", "always", "", exclusive, "", quiet, 0},
    {Op::AddIdentity, "add_identity", "column", attnum, "forward", "always", "apply_failed", exclusive, "",
     quiet, 0},
    {Op::AlterIdentity, "alter_identity", "column", attnum, "forward", "always", "", exclusive, "", quiet, 0},
    {Op::DropIdentity, "drop_identity", "column", attnum, "forward", "always", "", exclusive, "", quiet, 0},
    {Op::SetExpression, "set_expression", "column", attnum, "forward", "the expression is proven",
     "local_drift, missing_object", exclusive, "rewrite", warn, 17},
    {Op::DropExpression, "drop_expression", "column", attnum, "forward", "always", "", exclusive, "", quiet,
     0},
    {Op::AlterSequence, "alter_sequence", "sequence", attnum, "forward", "always", "", "", "", quiet, 0},
    {Op::SetStorage, "set_storage", "column", attnum, "forward", "always", "", exclusive, "", quiet, 0},
    {Op::SetCompression, "set_compression", "column", attnum, "forward", "always", "apply_failed", exclusive,
     "", quiet, 0},
    {Op::SetStatistics, "set_statistics", "column", attnum, "forward", "always", "", share_exclusive, "",
     quiet, 0},
    {Op::SetColumnOptions, "set_column_options", "column", attnum, "forward", "always", "", share_exclusive,
     "", quiet, 0},
    {Op::PublishColumn, "publish_column", "column", attnum, "refuse", "no row in the table",
     "default_unreadable", exclusive, "", warn, 0},
    {Op::UnpublishColumn, "unpublish_column", "column", attnum, "ignore", "the column stays", "", "", "",
     quiet, 0},

    {Op::AddPrimaryKey, "add_primary_key", "constraint", constraint_oid, "forward",
     "always; existing rows are checked", "apply_failed", exclusive, "build", warn, 0},
    {Op::AddUnique, "add_unique", "constraint", constraint_oid, "forward",
     "constraints = forward; existing rows are checked", "apply_failed", exclusive, "build", warn, 0},
    {Op::AddCheck, "add_check", "constraint", constraint_oid, "forward",
     "constraints = forward and the expression is proven; existing rows are checked",
     "apply_failed, missing_object, local_drift", exclusive, "scan", warn, 0},
    {Op::AddForeignKey, "add_foreign_key", "constraint", constraint_oid, "forward",
     "constraints = forward and the other table is there; existing rows are checked",
     "apply_failed, missing_object", row_exclusive, "scan", warn, 0},
    {Op::AddExclusion, "add_exclusion", "constraint", constraint_oid, "forward",
     "constraints = forward and the expressions are proven; existing rows are checked",
     "apply_failed, missing_object, local_drift", exclusive, "build", warn, 0},
    {Op::AddNotNull, "add_not_null_constraint", "constraint", constraint_oid, "forward",
     "always; existing rows are checked", "apply_failed", exclusive, "scan", warn, 18},
    {Op::ValidateConstraint, "validate_constraint", "constraint", constraint_oid, "forward",
     "constraints = forward; existing rows are checked", "apply_failed", share_exclusive, "scan", quiet, 0},
    {Op::RenameConstraint, "rename_constraint", "constraint", constraint_oid, "forward", "always",
     "local_name_taken", exclusive, "", quiet, 0},
    {Op::AlterConstraint, "alter_constraint", "constraint", constraint_oid, "forward", "always",
     "apply_failed", exclusive, "", quiet, 0},
    {Op::DropConstraint, "drop_constraint", "constraint", "constraint oid is gone", "forward", "always",
     "local_dependents", exclusive, "", warn, 0},

    {Op::CreateIndex, "create_index", "index", index_oid, "forward",
     "indexes = forward, or background (built concurrently by a second worker) and its expressions are "
     "proven",
     "apply_failed, missing_object, local_drift", "SHARE", "build", quiet, 0},
    {Op::RenameIndex, "rename_index", "index", index_oid, "forward", "always", "local_name_taken",
     share_exclusive, "", quiet, 0},
    {Op::AlterIndex, "alter_index", "index", index_oid, "ignore", "never: it has no effect on rows", "", "",
     "", quiet, 0},
    {Op::DropIndex, "drop_index", "index", "index oid is gone", "forward",
     "indexes = forward or background, or the index is unique", "local_dependents", exclusive, "", quiet, 0},

    {Op::CreateType, "create_type", "type", type_oid, "forward", "no type of that name is there, or the same",
     "local_name_taken, missing_object, unsupported_object", "", "", quiet, 0},
    {Op::RenameType, "rename_type", "type", type_oid, "forward", "always", "local_name_taken", "", "", quiet,
     0},
    {Op::SetTypeSchema, "set_type_schema", "type", type_oid, "forward", "the schema is there",
     "local_name_taken, missing_object", "", "", quiet, 0},
    {Op::ChangeTypeOwner, "change_type_owner", "type", type_oid, "ignore", "owners = same", "missing_object",
     "", "", quiet, 0},
    {Op::DropType, "drop_type", "type", "type oid is gone", "forward", "no local object depends on it",
     "local_dependents", "", "", warn, 0},
    {Op::AddEnumValue, "add_enum_value", "type", "label oid", "forward", "always", "local_drift", "", "",
     quiet, 0},
    {Op::RenameEnumValue, "rename_enum_value", "type", "label oid", "forward", "always", "local_drift", "",
     "", warn, 0},
    {Op::SetDomainDefault, "set_domain_default", "type", type_oid, "forward", "always", "missing_object", "",
     "", quiet, 0},
    {Op::SetDomainNotNull, "set_domain_not_null", "type", type_oid, "forward",
     "always; existing rows are checked", "apply_failed", "SHARE", "scan", warn, 0},
    {Op::AddDomainConstraint, "add_domain_constraint", "type", constraint_oid, "forward",
     "the expression is proven; existing rows are checked", "apply_failed, missing_object, local_drift",
     "SHARE", "scan", warn, 0},
    {Op::ValidateDomainConstraint, "validate_domain_constraint", "type", constraint_oid, "forward",
     "existing rows are checked", "apply_failed", "SHARE", "scan", quiet, 0},
    {Op::RenameDomainConstraint, "rename_domain_constraint", "type", constraint_oid, "forward", "always", "",
     "", "", quiet, 0},
    {Op::DropDomainConstraint, "drop_domain_constraint", "type", "constraint oid is gone", "forward",
     "always", "", "", "", quiet, 0},
    {Op::AddAttribute, "add_attribute", "type", "attribute number", "forward", "always",
     "missing_object, apply_failed", exclusive, "", warn, 0},
    {Op::DropAttribute, "drop_attribute", "type", "attribute number is gone", "forward", "always",
     "apply_failed", exclusive, "", critical, 0},
    {Op::RenameAttribute, "rename_attribute", "type", "attribute number", "forward", "always",
     "local_name_taken", exclusive, "", quiet, 0},
    {Op::AlterAttributeType, "alter_attribute_type", "type", "attribute number", "forward",
     "always; no table column may use it", "apply_failed, missing_object", exclusive, "", warn, 0},
    {Op::AlterType, "alter_type", "type", type_oid, "refuse",
     "never: the kind, base or subtype of a type does not change in place", "unsupported_object", "", "",
     critical, 0},

    {Op::CreateSchema, "create_schema", "schema", "schema oid", "forward", "always", "", "", "", quiet, 0},
    {Op::RenameSchema, "rename_schema", "schema", "schema oid", "forward", "always", "local_name_taken", "",
     "", warn, 0},
    {Op::ChangeSchemaOwner, "change_schema_owner", "schema", "schema oid", "ignore", "owners = same",
     "missing_object", "", "", quiet, 0},

    {Op::CreateObject, "create_object", "object", object_oid, "ignore",
     "ddl_classes names its class; no other object of that name is there",
     "local_name_taken, missing_object, policy_refuse, apply_failed", "", "", quiet, 0},
    {Op::ReplaceObject, "replace_object", "object", object_oid, "ignore", "ddl_classes names its class",
     "missing_object, local_dependents, apply_failed", "", "", quiet, 0},
    {Op::RenameObject, "rename_object", "object", object_oid, "ignore", "ddl_classes names its class",
     "local_name_taken", "", "", quiet, 0},
    {Op::SetObjectSchema, "set_object_schema", "object", object_oid, "ignore",
     "ddl_classes names its class; the schema is there", "local_name_taken, missing_object", "", "", quiet,
     0},
    {Op::AlterObject, "alter_object", "object", object_oid, "ignore", "ddl_classes names its class",
     "missing_object, apply_failed", "", "", quiet, 0},
    {Op::ChangeObjectOwner, "change_object_owner", "object", object_oid, "ignore",
     "ddl_classes names its class; owners = same", "apply_failed", "", "", quiet, 0},
    {Op::DropObject, "drop_object", "object", "object oid is gone", "ignore",
     "ddl_classes names its class; nothing else depends on it", "local_dependents", "", "", warn, 0},
    {Op::SetComment, "set_comment", "object", object_oid, "ignore", "ddl_classes names comments",
     "missing_object", "", "", quiet, 0},
    {Op::SetPrivileges, "set_privileges", "object", object_oid, "ignore", "ddl_classes names privileges",
     "missing_object, local_dependents, apply_failed", "", "", warn, 0},

    {Op::Unsupported, "unsupported", "object", "", "refuse", "never", "unsupported_object", "", "", critical,
     0},
    {Op::ExtensionMember, "extension_member", "object", "", "ignore",
     "what belongs to an extension is changed by the extension", "", "", "", quiet, 0},
}};

const OperationInfo &
info(Op op)
{
	return operations[static_cast<std::size_t>(op)];
}

} // namespace schemasync::merge
