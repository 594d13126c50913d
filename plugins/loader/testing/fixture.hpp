// A folder of its own for each test, with copies of plugins in it.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "plugins/loader/policy.hpp"

namespace crucible::backend {

class LoaderFiles : public testing::Test {
 protected:
  LoaderFiles() {
    std::string name = (std::filesystem::canonical(testing::TempDir()) / "crucible_loader_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    chmod(folder_.c_str(), 0755);
  }
  ~LoaderFiles() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path cache() const { return folder_ / "cache"; }

  /// A copy of broken_plugin.cpp's plugin as libcrucible_KIND.so in `subfolder`, with a sound mode.
  std::filesystem::path copy_plugin(const std::string& kind, const std::string& subfolder = "plugins") const {
    return copy(CRUCIBLE_BROKEN_PLUGIN, kind, subfolder);
  }
  std::filesystem::path copy(const std::filesystem::path& source, const std::string& kind,
                             const std::string& subfolder = "plugins") const {
    const std::filesystem::path to = folder_ / subfolder / ("libcrucible_" + kind + ".so");
    std::filesystem::create_directories(to.parent_path());
    chmod(to.parent_path().c_str(), 0755);
    std::filesystem::copy_file(source, to, std::filesystem::copy_options::overwrite_existing);
    chmod(to.c_str(), 0755);
    return to;
  }
  LoadPolicy policy() const {
    LoadPolicy policy;
    policy.cache_folder = cache();
    policy.trust = TrustPolicy::kEnforce;
    return policy;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace crucible::backend
