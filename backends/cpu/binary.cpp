// Binary table: a compiled module as one text of bytes: a header with the key of everything that it depends on, then
// each object with the names of its kernels, then a SHA-256 over all of it. Loading opens sealed copies of the objects.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/compiler.hpp"
#include "backends/cpu/device.hpp"
#include "backends/cpu/module.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/sealed.hpp"
#include "backends/cpu/sha256.hpp"
#include "backends/cpu/tables.hpp"

namespace crucible_cpu {
namespace {

constexpr std::string_view kMagic = "crucible cpu binary 1\n";
constexpr std::size_t kDigestSize = 64;  // hexadecimal digits

/// Machine code depends on the processor's instructions and on nothing else that a binary cannot carry.
std::string compatibility_text() { return "x86-64 " + cpuinfo("flags"); }

std::string digest_of(std::string_view bytes) {
  Sha256 hash;
  hash.update_field(std::string(bytes));
  return hash.hex();
}

void append_field(std::string& out, std::string_view field) {
  const std::uint64_t size = field.size();
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(size >> shift & 0xff);
  out += field;
}

/// Reads what append_field wrote. Errors: DATA_CORRUPT when the bytes end before the field does.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}
  std::string_view next() {
    if (bytes_.size() < 8) cut();
    std::uint64_t size = 0;
    for (int i = 7; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(bytes_[static_cast<std::size_t>(i)]);
    bytes_.remove_prefix(8);
    if (size > bytes_.size()) cut();
    const std::string_view field = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return field;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  [[noreturn]] static void cut() {
    throw Failure(CRUCIBLE_E_DATA_CORRUPT, "the binary ends in the middle: make it again");
  }
  std::string_view bytes_;
};

/// The fields behind a whole header. Errors: INCOMPATIBLE when it is none of ours, DATA_CORRUPT.
std::string_view checked_body(std::string_view binary) {
  if (!binary.starts_with(kMagic))
    throw Failure(CRUCIBLE_E_INCOMPATIBLE, "this is not a binary of the plugin cpu: compile the kernels again");
  if (binary.size() < kMagic.size() + kDigestSize)
    throw Failure(CRUCIBLE_E_DATA_CORRUPT, "the binary ends in its header: make it again");
  const std::string_view body = binary.substr(0, binary.size() - kDigestSize);
  if (digest_of(body) != binary.substr(binary.size() - kDigestSize)) {
    throw Failure(CRUCIBLE_E_DATA_CORRUPT,
                  "the binary's bytes do not have its checksum: it was damaged, make it again");
  }
  return body.substr(kMagic.size());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream || bytes.empty())
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "the compiled object " + path.string() + " cannot be read any more");
  return bytes;
}

crucible_status compatibility_key(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require_device(device_id);
    require(sink != nullptr, "binary.compatibility_key: no function to report to");
    const std::string text = compatibility_text();
    const crucible_kv items[] = {text_item("processor", text),
                                 text_item("format", kMagic.substr(0, kMagic.size() - 1))};
    sink(user, items, std::size(items));
  });
}

crucible_status save(crucible_module* module, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(module != nullptr && sink != nullptr, "binary.save: no module or no function to report to");
    std::string binary(kMagic);
    append_field(binary, compatibility_text());
    for (const LoadedObject& object : module->objects) {
      std::string names;
      for (const std::string& name : object.kernels) names += name + "\n";
      append_field(binary, names);
      append_field(binary, object.bytes.empty() ? read_file(object.path) : object.bytes);
    }
    binary += digest_of(binary);
    const crucible_kv item = text_item("binary", binary);
    sink(user, &item, 1);
  });
}

crucible_status check(crucible_str device_id, crucible_str binary, std::uint32_t* out, crucible_kv_sink why,
                      void* user) {
  return guard([&] {
    require(out != nullptr, "binary.check: no place for the answer");
    require_device(device_id);
    std::uint32_t answer = CRUCIBLE_BINARY_OPTIMAL;
    std::string reason = "made for this processor";
    try {
      FieldReader reader(checked_body({binary.data == nullptr ? "" : binary.data, binary.size}));
      if (reader.next() != compatibility_text()) {
        answer = CRUCIBLE_BINARY_NEEDS_RECOMPILE;
        reason = "made for a processor with other instructions";
      }
    } catch (const Failure& failure) {
      answer = CRUCIBLE_BINARY_NEVER;
      reason = failure.what();
    }
    const crucible_kv item = text_item("reason", reason);
    if (why != nullptr) why(user, &item, 1);
    *out = answer;
  });
}

/// Errors: UNAVAILABLE.
void open_object(crucible_module& module, std::string_view names, std::string_view bytes) {
  std::string problem;
  LoadedObject object{open_sealed(bytes, problem), {}, {}, std::string(bytes)};
  if (object.handle == nullptr) throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot load a kernel of the binary: " + problem);
  void* const handle = object.handle;
  const auto enter = reinterpret_cast<GuardEnter>(dlsym(handle, "crucible_guard_enter"));
  module.objects.push_back(std::move(object));
  for (std::size_t start = 0; start < names.size();) {
    const std::size_t end = names.find('\n', start);
    const std::string kernel(names.substr(start, end - start));
    void* const symbol = dlsym(handle, kernel.c_str());
    if (symbol == nullptr) throw Failure(CRUCIBLE_E_DATA_CORRUPT, "the binary has no function " + kernel);
    module.objects.back().kernels.push_back(kernel);
    module.kernels[kernel] = {reinterpret_cast<KernelFunction>(symbol), kernel, bytes.size(), true, "", enter};
    start = end == std::string_view::npos ? names.size() : end + 1;
  }
}

crucible_status load(crucible_device* device, crucible_str binary, crucible_module** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "binary.load: no device or no place for the module");
    FieldReader reader(checked_body({binary.data == nullptr ? "" : binary.data, binary.size}));
    if (reader.next() != compatibility_text()) {
      throw Failure(CRUCIBLE_E_INCOMPATIBLE,
                    "the binary was made for a processor with other instructions: compile the kernels again");
    }
    auto module = std::make_unique<crucible_module>();
    while (!reader.at_end()) {
      const std::string_view names = reader.next();
      open_object(*module, names, reader.next());
    }
    *out = module.release();
  });
}

}  // namespace

const crucible_if_binary kBinaryTable = {
    sizeof(crucible_if_binary), CRUCIBLE_ABI_MINOR, compatibility_key, save, check, load};

}  // namespace crucible_cpu
