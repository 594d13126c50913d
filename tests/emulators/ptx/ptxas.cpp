// libnvJitLink by dlopen: see ptxas.hpp.
#include "tests/emulators/ptx/ptxas.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <string_view>

namespace crucible::emulators::ptx {
namespace {

using Handle = void*;

/// The number in front of `words`.
std::uint32_t number_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return static_cast<std::uint32_t>(std::strtoul(std::string(line.substr(begin, end - begin)).c_str(), nullptr, 10));
}

}  // namespace

std::map<std::string, PtxasNumbers> read_ptxas(const std::string& log) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  std::map<std::string, PtxasNumbers> found;
  std::string name;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("ptxas")) continue;
    if (const std::size_t at = line.find(kEntry); at != std::string::npos) {
      const std::size_t begin = at + kEntry.size();
      name = line.substr(begin, line.find('\'', begin) - begin);
    } else if (name.empty()) {
      continue;
    } else if (line.find(" bytes spill stores") != std::string::npos) {
      found[name].spilled_bytes = number_before(line, " bytes spill stores");
    } else if (line.find("Used ") != std::string::npos) {
      found[name].registers = number_before(line, " registers");
      name.clear();
    }
  }
  return found;
}

std::expected<std::map<std::string, PtxasNumbers>, std::string> ask_ptxas(const std::string& ptx,
                                                                          const std::string& library) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return std::unexpected(std::string("it does not load: ") + dlerror());
  constexpr int kPtxInput = 2;
  const auto create = reinterpret_cast<int (*)(Handle*, std::uint32_t, const char**)>(dlsym(opened, "nvJitLinkCreate"));
  const auto add =
      reinterpret_cast<int (*)(Handle, int, const void*, std::size_t, const char*)>(dlsym(opened, "nvJitLinkAddData"));
  const auto complete = reinterpret_cast<int (*)(Handle)>(dlsym(opened, "nvJitLinkComplete"));
  const auto destroy = reinterpret_cast<int (*)(Handle*)>(dlsym(opened, "nvJitLinkDestroy"));
  if (create == nullptr || add == nullptr || complete == nullptr || destroy == nullptr)
    return std::unexpected(library + " is no nvJitLink");
  const auto log = [&](Handle link, const std::string& which) {
    const auto size_of =
        reinterpret_cast<int (*)(Handle, std::size_t*)>(dlsym(opened, ("nvJitLinkGet" + which + "LogSize").c_str()));
    const auto get = reinterpret_cast<int (*)(Handle, char*)>(dlsym(opened, ("nvJitLinkGet" + which + "Log").c_str()));
    std::size_t size = 0;
    if (size_of == nullptr || get == nullptr || size_of(link, &size) != 0) return std::string();
    std::string text(size, '\0');
    get(link, text.data());
    return text;
  };
  const char* options[] = {"-arch=sm_90", "-verbose", "-Xptxas=-v"};
  Handle link = nullptr;
  if (create(&link, 3, options) != 0) return std::unexpected(std::string("nvJitLink does not start"));
  const bool failed = add(link, kPtxInput, ptx.c_str(), ptx.size() + 1, "kernels") != 0 || complete(link) != 0;
  const std::string words = log(link, failed ? "Error" : "Info");
  destroy(&link);
  if (failed) return std::unexpected(words);
  return read_ptxas(words);
}

}  // namespace crucible::emulators::ptx
