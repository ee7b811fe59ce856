/* Proves that core compiles and links without the server. */
#include <gtest/gtest.h>

#include "core/pure.hpp"

TEST(Pure, NoServerHeader)
{
#ifdef POSTGRES_H
	FAIL() << "a server header came in";
#endif
}
