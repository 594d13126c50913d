// ptx_warps FILE.ptx: what the warps of a launch would do on an H100, as JSON. Runs a few blocks of the grid on memory
// that is zero; nothing is computed that anybody looks at.
#include <sys/mman.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>

#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/ptx/load.hpp"
#include "tests/emulators/ptx/ptxas.hpp"
#include "tests/emulators/ptx/warp_model.hpp"

namespace {

using namespace crucible;
namespace ptx = emulators::ptx;

constexpr const char* kUsage =
    "usage: ptx_warps FILE.ptx --grid X[,Y[,Z]] --block X[,Y[,Z]] [--kernel NAME] [--args A,A,...] [--bytes N]\n"
    "                 [--registers N] [--nvjitlink LIBRARY] [--shared N]\n"
    "                 [--level l2|dram]\n"
    "  --args   an argument each: p a buffer of zeros of its own, pN:O the one N (from 0) from its byte O on,\n"
    "           1.5 a float, 1.5d a double, others whole numbers. Default: p for 64-bit ones, 0 for others\n"
    "  --bytes  moved at the least; default: what the blocks looked at touched, for all of them\n"
    "  --registers  of a thread; default: what ptxas in libnvJitLink says, else those needed at once, and ten\n";

constexpr std::uint64_t kBufferBytes = 16ull << 30;

struct Options {
  std::string file, kernel, level, nvjitlink;
  std::array<std::uint32_t, 3> grid = {1, 1, 1}, block = {32, 1, 1};
  std::optional<std::vector<std::string>> arguments;
  double bytes = 0;
  std::uint32_t registers = 0, shared = 0;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return parts;
}

template <typename T>
bool number(const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool sizes(const std::string& text, std::array<std::uint32_t, 3>& out) {
  const std::vector<std::string> parts = split(text);
  if (parts.size() > 3) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!number(parts[i], out[i]) || out[i] == 0) return false;
  }
  return true;
}

std::optional<Options> parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (!word.starts_with("--")) {
      if (!options.file.empty()) return std::nullopt;
      options.file = word;
      continue;
    }
    if (++i == count) return std::nullopt;
    const std::string value = words[i];
    bool good = true;
    if (word == "--grid") {
      good = sizes(value, options.grid);
    } else if (word == "--block") {
      good = sizes(value, options.block);
    } else if (word == "--kernel") {
      options.kernel = value;
    } else if (word == "--args") {
      options.arguments = split(value);
    } else if (word == "--bytes") {
      good = number(value, options.bytes);
    } else if (word == "--registers") {
      good = number(value, options.registers) && options.registers != 0;
    } else if (word == "--nvjitlink") {
      options.nvjitlink = value;
    } else if (word == "--shared") {
      good = number(value, options.shared);
    } else if (word == "--level") {
      options.level = value;
      good = value == "l2" || value == "dram";
    } else {
      return std::nullopt;
    }
    if (!good) return std::nullopt;
  }
  if (options.file.empty()) return std::nullopt;
  return options;
}

/// Buffers for arguments: addresses without memory until they are touched.
class Buffers {
 public:
  std::uint64_t add() {
    void* const mapped =
        mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error("there are no addresses for another buffer");
    all_.push_back(reinterpret_cast<std::uint64_t>(mapped) | EMU_TAG);
    return all_.back();
  }
  std::uint64_t at(std::size_t number) const { return all_.at(number); }

 private:
  std::vector<std::uint64_t> all_;
};

std::uint64_t argument(const std::string& word, std::uint64_t size, Buffers& buffers) {
  std::uint64_t bits = 0;
  if (word == "p") return buffers.add();
  if (word.starts_with("p")) {
    const std::size_t colon = word.find(':');
    std::size_t which = 0;
    if (colon == std::string::npos || !number(word.substr(1, colon - 1), which) ||
        !number(word.substr(colon + 1), bits))
      throw std::runtime_error("--args: '" + word + "' is no pN:O");
    return buffers.at(which) + bits;
  }
  std::int64_t whole = 0;
  if (number(word, whole)) return static_cast<std::uint64_t>(whole);
  const bool is_double = word.ends_with('d') || size == 8;
  double value = 0;
  if (!number(word.ends_with('d') ? word.substr(0, word.size() - 1) : word, value))
    throw std::runtime_error("--args: '" + word + "' is nothing that a kernel takes");
  const auto narrow = static_cast<float>(value);
  if (is_double) {
    std::memcpy(&bits, &value, sizeof value);
  } else {
    std::memcpy(&bits, &narrow, sizeof narrow);
  }
  return bits;
}

std::vector<char> pack(const ptx::Kernel& kernel, const Options& options, Buffers& buffers) {
  std::vector<char> bytes(kernel.parameter_bytes + 16);
  if (options.arguments && options.arguments->size() != kernel.parameters.size()) {
    throw std::runtime_error(kernel.name + " takes " + std::to_string(kernel.parameters.size()) +
                             " arguments, --args has " + std::to_string(options.arguments->size()));
  }
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const auto& [offset, size] = kernel.parameters[i];
    const std::string word = options.arguments ? (*options.arguments)[i] : size == 8 ? "p" : "0";
    const std::uint64_t bits = argument(word, size, buffers);
    std::memcpy(bytes.data() + offset, &bits, std::min<std::uint64_t>(size, sizeof bits));
  }
  return bytes;
}

std::uint32_t registers_of(const Options& options, const ptx::Kernel& kernel, const std::string& text) {
  if (options.registers != 0) return options.registers;
  if (options.nvjitlink.empty()) return kernel.warps.live_registers;
  auto numbers = ptx::ask_ptxas(text, options.nvjitlink);
  if (!numbers) throw std::runtime_error(numbers.error());
  return numbers->at(kernel.name).registers;
}

int run(const Options& options) {
  std::ifstream stream(options.file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream.is_open()) throw std::runtime_error("it cannot be read");
  auto library = ptx::Library::load(ptx::translate(text, {.warps = true}));
  if (!library) throw std::runtime_error(library.error());
  const auto& kernels = library->translation().kernels;
  std::size_t which = 0;
  while (which < kernels.size() && !options.kernel.empty() && kernels[which].name != options.kernel) ++which;
  if (which == kernels.size()) throw std::runtime_error("it has no kernel '" + options.kernel + "'");
  const ptx::Kernel& kernel = kernels[which];
  Buffers buffers;
  const std::vector<char> arguments = pack(kernel, options, buffers);
  const emulator::Launch launch = {options.grid, options.block, options.shared, arguments.data()};
  const std::uint64_t blocks = std::uint64_t{options.grid[0]} * options.grid[1] * options.grid[2];
  const ptx::WarpLaunch shape = {blocks, options.block[0] * options.block[1] * options.block[2],
                                 registers_of(options, kernel, text), kernel.shared_bytes + options.shared};
  std::map<std::uint64_t, ptx::BlockCounts> counted;
  emulator::Sampling sampling = {library->code(which), ptx::sampled_blocks(blocks), true,
                                 [&](std::uint64_t block, const emulator::LaneWords& words) {
                                   counted[block] = ptx::count_block(kernel.warps, words);
                                 }};
  const emulator::Outcome outcome = emulator::run_grid(sampling.code, launch, nullptr, nullptr, &sampling);
  if (outcome != emulator::Outcome::kDone) {
    throw std::runtime_error(kernel.name + (outcome == emulator::Outcome::kIllegalAddress
                                                ? ": an access to no memory; see --args"
                                                : ": it did not come to its end"));
  }
  std::vector<ptx::BlockCounts> sampled;
  for (auto& [block, counts] : counted) sampled.push_back(std::move(counts));
  const ptx::LaunchCounts whole = ptx::extrapolate(shape, sampled);
  const ptx::ModelledTime time =
      whole.time(options.level == "dram" ? ptx::MemoryLevel::kDram : ptx::MemoryLevel::kL2, options.bytes);
  std::cout << ptx::to_json(whole) << "\n";
  std::fprintf(
      stderr,
      "%s: %.1f us, bound %.2f us, factor %.1f (%s; latency %.1f issue %.1f shared %.1f l2 %.1f), %u registers\n",
      kernel.name.c_str(), time.us, time.bound_us, time.factor, time.longest, time.latency_us, time.issue_us,
      time.shared_us, time.l2_us, shape.registers);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::optional<Options> options = parse(count, words);
  if (!options) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    return run(*options);
  } catch (const std::exception& error) {
    std::cerr << options->file << ": " << error.what() << "\n";
    return 1;
  }
}
