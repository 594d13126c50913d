/* Compiled as strict C11 into the layout test: the header must not need C++, and C must see the sizes that C++ sees. */
#include "plugins/abi/crucible_plugin.h"

#include <stddef.h>

_Static_assert(sizeof(crucible_str) == 16, "a pointer and a length");
_Static_assert(offsetof(crucible_op, struct_size) == 0, "sized structs begin with their size");

/* Sizes as C has them, in the order in which layout_test.cpp asks. */
uint64_t crucible_abi_size_in_c(int index) {
  static const uint64_t sizes[] = {sizeof(crucible_op),           sizeof(crucible_library_desc), sizeof(crucible_view),
                                   sizeof(crucible_query_out),    sizeof(crucible_if_memory),    sizeof(crucible_if_plan),
                                   sizeof(crucible_compile_info), sizeof(crucible_kv)};
  return sizes[index];
}

/* A plugin written in C needs nothing else than this. */
int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return in != NULL && out != NULL && in->magic == CRUCIBLE_MAGIC ? 0 : 1;
}
