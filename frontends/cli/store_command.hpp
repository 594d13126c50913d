// What the commands of `crucible store` share.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/replay/open_device.hpp"
#include "store/store.hpp"

namespace CLI {
class App;
}

namespace crucible::cli {

struct StoreSwitches {
  std::string folder, kind, key, limit, file, trust = "off", sign, remote_trust;
  std::vector<std::string> keys, wanted, remotes;
  replay::DeviceChoice layers;  // --set and --config of the commands that ask remotes
  std::size_t count = 50;
  bool json = false, tuning = false;
};

using StoreCommand = Result<int> (*)(const StoreSwitches&);

/// Folder and voice of a store. Errors: those of the configuration, whose folder it is.
Result<store::StoreOptions> store_options(const StoreSwitches& switches, bool must_exist);

/// Adds --remote, --trust, --key, --set and --config.
void add_remote_switches(CLI::App& command, StoreSwitches& switches);
/// A store with the remotes of the switches, else of the settings. Errors: those of the configuration, of
/// store::add_remotes() and of Store::open().
Result<std::unique_ptr<store::Store>> open_with_remotes(const StoreSwitches& switches, bool must_exist, bool may_write);

/// Why `digits` is not here, and what each remote says about it. A whole key that only a remote knows is explained by
/// the remote's entry.
Result<std::pair<store::Explanation, std::vector<store::Asked>>> explain_with_remotes(store::Store& store,
                                                                                      const std::string& digits);
nlohmann::ordered_json asked_json(const std::vector<store::Asked>& asked);
void print_asked(const std::vector<store::Asked>& asked);
nlohmann::ordered_json presence_json(store::Store& store);
void print_presence(store::Store& store, const store::Totals& totals);

Result<int> run_push(const StoreSwitches& switches);
Result<int> run_pull(const StoreSwitches& switches);

}  // namespace crucible::cli
