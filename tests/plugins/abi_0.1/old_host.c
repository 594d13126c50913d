/* A host that knows ABI 0.1 and nothing later, compiled against the header of that time (beside this file). It would
 * run plans by a call that is gone: the plugin given on the command line must refuse it, in words, and write nothing
 * behind its shorter answer. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crucible_plugin.h"

#if CRUCIBLE_ABI_MINOR != 1
#error "this host is about ABI 0.1: keep the archived header"
#endif

static void need(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "old host: %s failed\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  need(argc == 2, "usage: old_host PLUGIN;");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  need(library != NULL, "dlopen");
  crucible_plugin_query_fn query = NULL;
  *(void**)&query = dlsym(library, CRUCIBLE_QUERY_SYMBOL);
  need(query != NULL, "the query symbol");

  /* The answer ends where 0.1's does; the bytes behind it belong to somebody else. */
  struct {
    crucible_query_out out;
    unsigned char guard[64];
  } answer;
  memset(&answer, 0, sizeof(answer));
  memset(answer.guard, 0xa5, sizeof(answer.guard));
  answer.out.struct_size = sizeof(answer.out);
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, 0, 1};
  need(query(&in, &answer.out) != 0, "a refusal");
  for (size_t i = 0; i < sizeof(answer.guard); ++i)
    need(answer.guard[i] == 0xa5, "writing only into struct_size bytes");
  need(strstr(answer.out.reject_reason, "the host speaks ABI 0.1, this plugin takes hosts from 0.4 on") != NULL,
       "a reason that names both versions");
  need(strstr(answer.out.reject_reason, "use a newer Crucible") != NULL, "a reason that says what to do");
  printf("a host of ABI 0.1 was told: %s\n", answer.out.reject_reason);
  return 0;
}
