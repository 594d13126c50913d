// The host's services for what a plugin wants to keep from one run to the next: compiled kernels, above all.
#pragma once

#include <memory>

namespace crucible::store {
class Store;
}

namespace crucible::backend {

struct Library;

/// From now on the plugin keeps its bytes in `store`; null, or a store whose content may not be executed: nowhere.
/// Threads: not while the plugin runs.
void set_store(Library& library, std::shared_ptr<store::Store> store);

}  // namespace crucible::backend
