/*
 * The operation catalog: every kind of change the merge knows, as data. The merge dispatches by it, the view
 * schemasync_operations shows it, docs/operations.md is generated from it.
 *
 * Zone: core.
 */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/pure.hpp"

namespace schemasync::merge {

enum class Op : std::uint8_t {
	/* tables */
	CreateTable,
	DropTable,
	RenameTable,
	SetTableSchema,
	ChangeTableOwner,
	SetPersistence,
	SetAccessMethod,
	SetTableOptions,
	SetRowSecurity,
	SetReplicaIdentity,
	AttachPartition,
	DetachPartition,
	ChangeParents,
	ChangeTableType,
	RewriteRows,
	PublishTable,
	UnpublishTable,
	RepublishTable,
	/* columns */
	AddColumn,
	DropColumn,
	RenameColumn,
	AlterColumnType,
	RewriteColumn,
	SetNotNull,
	DropNotNull,
	SetDefault,
	DropDefault,
	AddIdentity,
	AlterIdentity,
	DropIdentity,
	SetExpression,
	DropExpression,
	AlterSequence,
	SetStorage,
	SetCompression,
	SetStatistics,
	SetColumnOptions,
	PublishColumn,
	UnpublishColumn,
	/* constraints */
	AddPrimaryKey,
	AddUnique,
	AddCheck,
	AddForeignKey,
	AddExclusion,
	AddNotNull,
	ValidateConstraint,
	RenameConstraint,
	AlterConstraint,
	DropConstraint,
	/* indexes */
	CreateIndex,
	RenameIndex,
	AlterIndex,
	DropIndex,
	/* types */
	CreateType,
	RenameType,
	SetTypeSchema,
	ChangeTypeOwner,
	DropType,
	AddEnumValue,
	RenameEnumValue,
	SetDomainDefault,
	SetDomainNotNull,
	AddDomainConstraint,
	ValidateDomainConstraint,
	RenameDomainConstraint,
	DropDomainConstraint,
	AddAttribute,
	DropAttribute,
	RenameAttribute,
	AlterAttributeType,
	AlterType,
	/* schemas */
	CreateSchema,
	RenameSchema,
	ChangeSchemaOwner,
	/* opt-in classes: views, functions, triggers, ... by their definition */
	CreateObject,
	ReplaceObject,
	RenameObject,
	SetObjectSchema,
	AlterObject,
	ChangeObjectOwner,
	DropObject,
	SetComment,
	SetPrivileges,
	/* whatever else a state shows */
	Unsupported,
	ExtensionMember,
	count_
};

enum class Severity : std::uint8_t { Info, Warn, Critical };

constexpr std::string_view
name(Severity severity)
{
	constexpr std::array<std::string_view, 3> names{"info", "warn", "critical"};
	return names[static_cast<std::size_t>(severity)];
}

struct OperationInfo {
	Op op;
	std::string_view code;           /* stable, stored in the history */
	std::string_view object_type;    /* "table", "column", ... */
	std::string_view proof;          /* what identifies the object on both sides of the change */
	std::string_view default_action; /* forward, ignore, refuse: with default options and the condition met */
	std::string_view condition;      /* when it is forwarded */
	std::string_view otherwise;      /* reason codes it may be refused with, separated by commas */
	std::string_view lock;           /* lock level on the subscriber's table; empty: none on a table */
	std::string_view cost;           /* "", "scan", "rewrite", "build" of the subscriber's table */
	Severity severity;
	int since; /* server major version that has it first; 0: all that are supported */
};

extern const std::array<OperationInfo, static_cast<std::size_t>(Op::count_)> operations;

const OperationInfo &info(Op op);

} // namespace schemasync::merge
