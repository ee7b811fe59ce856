/*
 * The only door to postgres.h. Include C++ standard headers before this one: port.h redefines
 * snprintf and its kin, and a standard header that comes after it would undo that silently.
 *
 * Zone: bridge.
 */
#pragma once

extern "C" {
#include "postgres.h"
}

/* Marks the few symbols that the server looks up by name; everything else is hidden. */
#define SCHEMASYNC_EXPORT extern "C" __attribute__((visibility("default")))
