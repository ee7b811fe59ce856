#include "apply_ext/capture/class_names.hpp"

extern "C" {
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
}

namespace schemasync::capture {

std::string_view
class_name(Oid class_id)
{
	switch (class_id) {
	case RelationRelationId:
		return "pg_class";
	case TypeRelationId:
		return "pg_type";
	case ConstraintRelationId:
		return "pg_constraint";
	case AttrDefaultRelationId:
		return "pg_attrdef";
	case NamespaceRelationId:
		return "pg_namespace";
	case ProcedureRelationId:
		return "pg_proc";
	case RewriteRelationId:
		return "pg_rewrite";
	case TriggerRelationId:
		return "pg_trigger";
	case PolicyRelationId:
		return "pg_policy";
	case PublicationRelationId:
		return "pg_publication";
	default:
		return "";
	}
}

} // namespace schemasync::capture
