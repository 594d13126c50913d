// The text around a kernel, and its table: see batch_kernel.hpp.
#include "plugins/sdk/batch_kernel.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

// The table: of each entry the number of its first block; then of each entry its blocks, begin and end of its items,
// its buffers, its scalars.
constexpr std::size_t kBlocks = 0, kBegin = 1, kEnd = 2, kBuffers = 3;

std::string pointee(const IrBuffer& buffer) {
  static constexpr std::string_view kNames[] = {"uint8_t", "uint8_t",      "int8_t",        "int16_t", "int32_t",
                                                "int64_t", "crucible_f16", "crucible_bf16", "float",   "double"};
  return std::string(buffer.written ? "" : "const ") + std::string(kNames[static_cast<std::size_t>(buffer.type)]);
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// A pointer to global memory, which no compiler can know of one that was loaded from there.
constexpr std::string_view kCudaPointer =
    "#ifndef CRUCIBLE_GLOBAL\n"
    "#define CRUCIBLE_GLOBAL(type, address) (type*)__cvta_global_to_generic(address)\n"
    "#endif\n";
constexpr std::string_view kHipPointer =
    "#ifndef CRUCIBLE_GLOBAL\n"
    "#ifdef __AMDGCN__\n"
    "#define CRUCIBLE_GLOBAL(type, address) (type*)(type __attribute__((address_space(1)))*)(address)\n"
    "#else\n"
    "#define CRUCIBLE_GLOBAL(type, address) (type*)(address)\n"
    "#endif\n"
    "#endif\n";

}  // namespace

std::string batch_name(const std::string& name) { return name + "_batch"; }

std::string print_batch_kernel(const Kernel& kernel, const Dialect& dialect, const std::string& name,
                               const ThreadKernel& printed) {
  const std::string head = std::string(dialect.kernel) + name + "(";
  const std::size_t begin = printed.text.find(head);
  if (printed.has_table || begin == std::string::npos) return "";
  const std::string function = "items_of_" + name;
  std::string text = printed.text;
  replace_all(text, "blockIdx.x", "crucible_block");
  replace_all(text, "gridDim.x", "crucible_blocks");
  text.replace(begin, head.size(),
               "CRUCIBLE_FN void " + function + "(uint32_t crucible_block, uint32_t crucible_blocks, ");
  std::string arguments = "(uint32_t)(blockIdx.x - table[low]), (uint32_t)row[" + std::to_string(kBlocks) + "], ";
  std::size_t word = kBuffers;
  for (const IrBuffer& buffer : kernel.buffers)
    arguments += "CRUCIBLE_GLOBAL(" + pointee(buffer) + ", row[" + std::to_string(word++) + "]), ";
  for (const Type scalar : kernel.scalars) {
    const std::string type(scalar_type(scalar));
    arguments += "*(const " + type + "*)(row + " + std::to_string(word++) + "), ";
  }
  return std::string(dialect.name == "cuda" ? kCudaPointer : kHipPointer) + text + std::string(dialect.kernel) +
         batch_name(name) +
         "(const uint64_t* table, int64_t count) {\n"
         "  int64_t low = 0, high = count;\n"
         "  while (high - low > 1) {\n"
         "    const int64_t middle = low + (high - low) / 2;\n"
         "    if (table[middle] <= blockIdx.x) {\n"
         "      low = middle;\n"
         "    } else {\n"
         "      high = middle;\n"
         "    }\n"
         "  }\n"
         "  const uint64_t* const row = table + count + low * " +
         std::to_string(word) + ";\n  " + function + "(" + arguments + "(int64_t)row[" + std::to_string(kBegin) +
         "], (int64_t)row[" + std::to_string(kEnd) + "]);\n}\n";
}

BatchTable make_batch(std::span<const BatchEntry> entries, std::uint32_t most_threads, std::uint64_t units,
                      std::uint32_t lanes) {
  BatchTable batch;
  std::int64_t most = 0;
  for (const BatchEntry& entry : entries) most = std::max(most, entry.end - entry.begin);
  batch.shape.threads = launch_shape(most, most_threads, units, lanes).threads;
  std::uint64_t blocks = 0;
  std::vector<std::uint64_t> first;
  for (const BatchEntry& entry : entries) {
    const std::uint64_t own = blocks_of(entry.end - entry.begin, batch.shape.threads, lanes);
    first.push_back(blocks);
    batch.words.push_back(own);
    batch.words.push_back(static_cast<std::uint64_t>(entry.begin));
    batch.words.push_back(static_cast<std::uint64_t>(entry.end));
    batch.words.insert(batch.words.end(), entry.buffers.begin(), entry.buffers.end());
    batch.first_scalar.push_back(entries.size() + batch.words.size());
    batch.words.insert(batch.words.end(), entry.scalars.begin(), entry.scalars.end());
    blocks += own;
  }
  if (blocks > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    throw Failure(CRUCIBLE_E_UNSUPPORTED, "a batch of " + std::to_string(blocks) + " blocks");
  batch.words.insert(batch.words.begin(), first.begin(), first.end());
  batch.shape.blocks = static_cast<std::uint32_t>(blocks);
  return batch;
}

}  // namespace crucible::sdk
