// libcurl, loaded when a remote is first asked: with all that it needs it takes 12 ms to load, which a process without
// a remote does not pay, and a machine without it has everything else.
#pragma once

#include <curl/curl.h>

#include "core/base/result.hpp"

namespace crucible::store {

struct CurlLibrary {
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_setopt) multi_setopt = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
};

/// Never unloaded. Errors: kUnavailable: it is not there, or too old (7.88 is needed).
Result<CurlLibrary> load_curl(const char* file);
/// Debian's, once per process. Threads: any.
const Result<CurlLibrary>& curl_library();

}  // namespace crucible::store
