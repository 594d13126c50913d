// A store on a server: blobs and entries over HTTP in the layout of build caches, BASE/cas/HASH and BASE/ac/KEY, or in
// an S3 bucket. Nothing of ours runs there. What it gives is believed no more than a stranger's (store/store.hpp).
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "store/place.hpp"
#include "store/remote/address.hpp"
#include "store/store.hpp"

namespace crucible::store {

struct RemoteOptions {
  std::string url;  // as parse_address() takes it
  bool may_write = false;
  std::string authorization;                 // USER:PASSWORD or `Bearer TOKEN`; "": the file's
  std::filesystem::path authorization_file;  // the same, in a file that others cannot read; empty: none
  std::filesystem::path ca_file;             // PEM: who may sign the server's certificate; empty: the system's list
  std::chrono::milliseconds connect_limit{3000};
  std::chrono::milliseconds limit{10000};  // of a request; bytes have 4 ms a KiB more
  std::chrono::seconds stall_limit{5};     // with fewer than 1 KiB/s
  /// How long it is not asked after it could not be reached, or failed three times in a row; twice as long each further
  /// time, an hour at most.
  std::chrono::milliseconds pause{60000};
  Tell tell;  // a password that goes unencrypted is said; may be empty
  Environment variable = process_variable;
};

/// Nothing is asked of it yet: a server that is not there is found out, and said once, when something is looked for.
/// Errors: kUsage, kBadInput: no such URL, a file that cannot be read or that others can read, half of an S3 id;
/// kUnavailable: no libcurl.
Result<std::unique_ptr<Place>> open_remote(const RemoteOptions& options);

/// What the settings `store.remote...`, `store.keys` and `store.sign` say.
struct RemoteSettings {
  std::vector<std::string> urls = {};  // asked in this order
  std::string trust = "enforce";       // "warn", "off"
  std::vector<std::filesystem::path> keys = {};
  std::filesystem::path sign = {};
  bool may_write = false;
  std::int64_t timeout_ms = 10000;
  std::filesystem::path ca_file = {};
  std::filesystem::path authorization_file = {};  // for every place that is no S3 bucket
};

/// Adds the places to `options`, whose `tell` they use, and its signer. Errors: as open_remote(), and kUsage where
/// nothing could be believed or what is written would be believed by nobody.
Result<void> add_remotes(const RemoteSettings& settings, StoreOptions& options);

}  // namespace crucible::store
