#include "core/pure.hpp"
