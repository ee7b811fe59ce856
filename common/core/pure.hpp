/*
 * Included last by every header and source of common/core: proves that no server header came in.
 *
 * Zone: core.
 */
#pragma once

#ifdef POSTGRES_H
#error "common/core must not see server headers"
#endif
