// Where in the Python program an op was called: the innermost line outside the framework, and the innermost nn.Module
// whose call is running. On CPython 3.11 the interpreter's frames are read in place, without the GIL and without
// touching reference counts; on other versions through the public API. Nothing here knows ops or tensors.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

namespace crucible::recorder {

inline constexpr std::uint32_t kNoSite = 0xffffffffu;

/// Ids of a site and of a module; kNoSite where there is none.
struct CallSite {
  std::uint32_t site = kNoSite;
  std::uint32_t module = kNoSite;
};

struct SourceLine {
  std::string file;
  std::uint32_t line = 0;
  std::string function;
};

/// What the threads share: every site and module that was met. Owns: references to the code and module objects in its
/// tables, so that their addresses stay theirs. Threads: the GIL guards all of it.
class CallSites {
 public:
  /// `module_call` is nn.Module.__call__; code in one of `framework_folders` is not a site. `name_modules` is called with
  /// the outermost running module when a module is met that has no name yet; it returns a list of (module, name).
  void start(PyObject* module_call, std::vector<std::string> framework_folders, PyObject* name_modules, bool read_frames);
  /// Gives all references back. Sites and module names stay readable until the next start.
  void stop();

  const std::vector<SourceLine>& sites() const { return sites_; }
  const std::vector<std::string>& modules() const { return modules_; }
  /// True when frames are read in place.
  bool reads_frames() const { return read_frames_; }
  /// Grows with each start: threads compare it to know that their caches are stale.
  std::uint32_t generation() const { return generation_; }

 private:
  friend class CallSiteCache;
  enum class CodeKind : std::uint8_t { kUser, kFramework, kModuleCall };
  CodeKind kind_of(PyCodeObject* code);
  std::uint32_t site_of(PyCodeObject* code, int instruction);
  std::uint32_t module_of(PyObject* module, PyObject* outermost);

  struct Tables;
  Tables* tables_ = nullptr;
  std::vector<SourceLine> sites_;
  std::vector<std::string> modules_;
  std::uint32_t generation_ = 0;
  bool read_frames_ = false;
};

/// One thread's way to its call site. Threads: its own.
class CallSiteCache {
 public:
  /// The call site of the op that this thread is about to run. The module is searched beyond the site's frame only when
  /// `want_module`. Takes the GIL only for code that this thread has not met yet.
  CallSite find(CallSites& shared, bool want_module);

 private:
  CallSite find_in_frames(CallSites& shared, bool want_module);
  CallSite find_with_api(CallSites& shared, bool want_module);
  CallSites::CodeKind kind_of(CallSites& shared, PyCodeObject* code);
  CallSites::CodeKind learn_kind(CallSites& shared, PyCodeObject* code);
  std::uint32_t site_of(CallSites& shared, PyCodeObject* code, int instruction);
  std::uint32_t module_of(CallSites& shared, PyObject* module, void* frame);

  struct CodeEntry {
    PyCodeObject* code = nullptr;
    CallSites::CodeKind kind = CallSites::CodeKind::kUser;
  };
  struct SiteEntry {
    PyCodeObject* code = nullptr;
    int instruction = 0;
    std::uint32_t site = 0;
  };
  struct ModuleEntry {
    PyObject* module = nullptr;
    std::uint32_t id = 0;
  };
  static constexpr std::size_t kEntries = 1024;  // of each, in sets of a few
  std::uint32_t generation_ = 0;
  std::vector<CodeEntry> codes_;
  std::vector<SiteEntry> sites_;
  std::vector<ModuleEntry> modules_;
};

}  // namespace crucible::recorder
