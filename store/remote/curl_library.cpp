#include "store/remote/curl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace crucible::store {

Result<CurlLibrary> load_curl(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return Error{ErrorCode::kUnavailable,
                 fmt::format("a remote store needs libcurl, and it cannot be loaded: {}; install it (Debian: apt-get "
                             "install libcurl4), or unset store.remote",
                             reason == nullptr ? file : reason)};
  }
  CurlLibrary curl;
  const char* missing = nullptr;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  find(curl.multi_init, "curl_multi_init");
  find(curl.multi_cleanup, "curl_multi_cleanup");
  find(curl.multi_setopt, "curl_multi_setopt");
  find(curl.multi_add_handle, "curl_multi_add_handle");
  find(curl.multi_remove_handle, "curl_multi_remove_handle");
  find(curl.multi_perform, "curl_multi_perform");
  find(curl.multi_poll, "curl_multi_poll");
  find(curl.multi_info_read, "curl_multi_info_read");
  decltype(&::curl_global_init) global_init = nullptr;
  find(global_init, "curl_global_init");
  decltype(&::curl_version_info) version = nullptr;
  find(version, "curl_version_info");
  if (missing != nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} is no libcurl that a remote store can use: it lacks {}", file, missing)};
  }
  // Protocols by name, which keep redirects inside http, came with 7.85; signatures that S3 takes with 7.88.
  constexpr unsigned kOldest = 0x075800;
  const curl_version_info_data* const facts = version(CURLVERSION_NOW);
  if (facts->version_num < kOldest || global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("libcurl {} cannot be used for a remote store: 7.88 or newer is needed", facts->version)};
  }
  return curl;
}

const Result<CurlLibrary>& curl_library() {
  static const Result<CurlLibrary> library = load_curl("libcurl.so.4");
  return library;
}

}  // namespace crucible::store
