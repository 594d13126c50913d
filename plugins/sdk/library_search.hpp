// How a plugin finds a library that its vendor has for products, convolutions or counters, which it can do without: by
// the option that names it, else by the names that the vendor gave its versions. What the library's functions are is
// the plugin's.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/options.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible::sdk {

struct LibrarySearch {
  std::string_view title;          // "cuDNN"
  std::string_view otherwise;      // what is done where it is not there: "convolutions are generated and slower"
  std::string_view choice;         // the option that is auto, none or what `option` is called: "dnn"
  std::string_view option;         // the option that names the library or its folder: "cudnn"
  std::string_view advice;         // what to install
  std::vector<std::string> names;  // by which it is looked for, in the folder or everywhere, in this order
};

/// What to open, in this order. `wanted` is what `choice` is set to. Errors: UNAVAILABLE with the reason why nothing is
/// tried: it is switched off, the folder has none, or the device is emulated and no option names a library: a real one
/// would look for a driver of its own.
std::vector<std::string> files_to_try(const LibrarySearch& search, const std::string& wanted, const std::string& named,
                                      bool is_emulated);

/// "none (REASON; convolutions are generated and slower)". Errors: UNAVAILABLE when `wanted` demands the library.
std::string told_absence(const LibrarySearch& search, const std::string& wanted, const Failure& reason);

/// Those of one kind that this process has opened: never closed, like what they are, so it is never destroyed either. A
/// Library is made from a VendorLibrary, throws a Failure when that is not what it should be, and has `file` and
/// `describe()`.
template <class Library>
class FoundLibraries {
 public:
  /// The library and "cuDNN 9.19.0 (FILE)" in `note`, or null and the reason. Threads: any. Errors: those of
  /// told_absence(), and of the options.
  const Library* find(const LibrarySearch& search, const Options& options, bool is_emulated, std::string& note) {
    const std::string wanted = options.get_text(search.choice), named = options.get_text(search.option);
    try {
      const std::vector<std::string> files = files_to_try(search, wanted, named, is_emulated);
      const std::lock_guard lock(mutex_);
      std::unique_ptr<const Library>& found = found_[files];
      // Absence is looked at again: a package may have been installed meanwhile.
      if (found == nullptr)
        found = std::make_unique<const Library>(VendorLibrary::open(search.title, files, search.advice));
      note = found->describe() + " (" + found->file + ")";
      return found.get();
    } catch (const Failure& failure) {
      note = told_absence(search, wanted, failure);
      return nullptr;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<std::string>, std::unique_ptr<const Library>> found_;
};

}  // namespace crucible::sdk
