/* Compiled as strict C11 into the layout test: the header must not need C++, and C must see the layout that C++ sees.
 */
#include <stddef.h>

#include "plugins/abi/crucible_plugin.h"

_Static_assert(sizeof(crucible_str) == 16, "a pointer and a length");
_Static_assert(offsetof(crucible_op, struct_size) == 0, "sized structs begin with their size");

/* Row `index` of layout_rows.inc as C measures it. */
uint64_t crucible_abi_row_in_c(int index) {
  static const uint64_t rows[] = {
#define CRUCIBLE_STRUCT(type) sizeof(type),
#define CRUCIBLE_FIELD(type, field) offsetof(type, field),
#include "plugins/abi/layout_rows.inc"
#undef CRUCIBLE_STRUCT
#undef CRUCIBLE_FIELD
  };
  return rows[index];
}

/* A plugin written in C needs nothing else than this. */
int32_t crucible_plugin_query(const crucible_query_in* in, crucible_query_out* out) {
  return in != NULL && out != NULL && in->magic == CRUCIBLE_MAGIC ? 0 : 1;
}
