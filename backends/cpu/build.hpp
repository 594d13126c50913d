// From C texts to object files: a folder for the work, as many C files as there are cores, a compiler process for each.
// A compiler that fails or is killed is asked once more, alone: memory may have been short. Nothing here loads or keeps
// an object.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/compiler.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible_cpu {

/// A kernel to be compiled, and what it is kept under: its key's content is the C text.
struct Text {
  std::string name;
  crucible::sdk::KeptKey key;
  bool operator<(const Text& other) const { return name < other.name; }
};

/// A folder for the files of one compilation, removed with all that is in it unless its sources are kept.
class WorkFolder {
 public:
  /// In the system's folder for temporary files. Errors: UNAVAILABLE.
  WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();

  const std::filesystem::path& path() const { return path_; }
  /// The next file name without its ending.
  std::filesystem::path next_stem() { return path_ / std::to_string(files_++); }
  /// Leaves STEM.c and STEM.log for people, and removes the rest.
  void keep(const std::filesystem::path& stem);

 private:
  std::filesystem::path path_;
  int files_ = 0;
  bool kept_ = false;
};

struct Object {
  std::filesystem::path stem;        // STEM.so was made of STEM.c; the compiler's words are in STEM.log
  std::vector<const Text*> kernels;  // what is in it
  WorkFolder* folder = nullptr;
};

class Build {
 public:
  /// Compiles the kernels. Errors: UNAVAILABLE when no file can be written or the compiler does not work here at all;
  /// INTERNAL with the compiler's words when it does not like the text, which is then kept.
  Build(const Compiler& compiler, std::vector<const Text*> kernels);

  /// Their files live as long as this.
  const std::vector<Object>& objects() const { return objects_; }

 private:
  std::vector<std::unique_ptr<WorkFolder>> folders_;
  std::vector<Object> objects_;
};

}  // namespace crucible_cpu
