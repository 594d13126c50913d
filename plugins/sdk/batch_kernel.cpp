// The text around a kernel, and its table: see batch_kernel.hpp.
#include "plugins/sdk/batch_kernel.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

// The table: of each entry the number of its first block; of each entry the word that its row begins at; then the rows:
// which kernel it is, its blocks, begin and end of its items, its buffers, its scalars.
constexpr std::size_t kPart = 0, kBlocks = 1, kBegin = 2, kEnd = 3, kBuffers = 4;

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

std::string pointee(const IrBuffer& buffer) {
  static constexpr std::string_view kNames[] = {"uint8_t", "uint8_t",      "int8_t",        "int16_t", "int32_t",
                                                "int64_t", "crucible_f16", "crucible_bf16", "float",   "double"};
  return std::string(buffer.written ? "" : "const ") + std::string(kNames[static_cast<std::size_t>(buffer.type)]);
}

BatchPart batch_part(const Kernel& kernel, const Dialect& dialect, const std::string& name,
                     const ThreadKernel& printed) {
  const std::string head = std::string(dialect.kernel) + name + "(";
  const std::size_t begin = printed.text.find(head);
  if (printed.has_table || begin == std::string::npos) return {};
  const std::string function = "items_of_" + name;
  BatchPart part{.text = printed.text, .call = function + "((uint32_t)(blockIdx.x - table[low]), "};
  replace_all(part.text, "blockIdx.x", "crucible_block");
  replace_all(part.text, "gridDim.x", "crucible_blocks");
  part.text.replace(begin, head.size(),
                    "CRUCIBLE_FN void " + function + "(uint32_t crucible_block, uint32_t crucible_blocks, ");
  // A program may have several batches with it.
  part.text = "#ifndef CRUCIBLE_HAS_" + function + "\n#define CRUCIBLE_HAS_" + function + "\n" + part.text + "#endif\n";
  const auto word = [](std::size_t i) { return "row[" + std::to_string(i) + "]"; };
  std::size_t next = kBuffers;
  part.call += "(uint32_t)" + word(kBlocks) + ", ";
  for (const IrBuffer& buffer : kernel.buffers)
    part.call += "CRUCIBLE_GLOBAL(" + pointee(buffer) + ", " + word(next++) + "), ";
  for (const Type scalar : kernel.scalars)
    part.call += "*(const " + std::string(scalar_type(scalar)) + "*)(row + " + std::to_string(next++) + "), ";
  part.call += "(int64_t)" + word(kBegin) + ", (int64_t)" + word(kEnd) + ")";
  return part;
}

std::string batch_name(std::span<const std::string> kernels) {
  if (kernels.size() == 1) return kernels.front() + "_batch";
  std::uint64_t number = 0xcbf29ce484222325u;  // FNV-1a
  for (const std::string& name : kernels) {
    for (const char letter : name + ",") number = (number ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return kernels.front() + "_batch_" + std::to_string(number);
}

std::string print_batch_kernel(std::span<const BatchPart> parts, const Dialect& dialect, const std::string& name) {
  std::string text(dialect.name == "cuda" ? kCudaPointer : kHipPointer);
  for (const BatchPart& part : parts) text += part.text;
  text += std::string(dialect.kernel) + name +
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
          "  const uint64_t* const row = table + table[count + low];\n";
  if (parts.size() == 1) return text + "  " + parts.front().call + ";\n}\n";
  text += "  switch (row[" + std::to_string(kPart) + "]) {\n";
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += "    case " + std::to_string(i) + ": " + parts[i].call + "; break;\n";
  return text + "  }\n}\n";
}

BatchTable make_batch(std::span<const BatchEntry> entries, std::uint32_t most_threads, std::uint64_t units,
                      std::uint32_t lanes) {
  BatchTable batch;
  const auto turns = [](const BatchEntry& entry) {
    return (entry.end - entry.begin + entry.at_once - 1) / entry.at_once;
  };
  std::int64_t most = 0;
  for (const BatchEntry& entry : entries) most = std::max(most, turns(entry));
  batch.shape.threads = launch_shape(most, most_threads, units, lanes).threads;
  std::uint64_t blocks = 0;
  std::vector<std::uint64_t> heads(2 * entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BatchEntry& entry = entries[i];
    const std::uint64_t own = blocks_of(turns(entry), batch.shape.threads, lanes);
    heads[i] = blocks;
    heads[entries.size() + i] = heads.size() + batch.words.size();
    batch.words.push_back(entry.part);
    batch.words.push_back(own);
    batch.words.push_back(static_cast<std::uint64_t>(entry.begin));
    batch.words.push_back(static_cast<std::uint64_t>(entry.end));
    batch.words.insert(batch.words.end(), entry.buffers.begin(), entry.buffers.end());
    batch.first_scalar.push_back(heads.size() + batch.words.size());
    batch.words.insert(batch.words.end(), entry.scalars.begin(), entry.scalars.end());
    blocks += own;
  }
  if (blocks > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    throw Failure(CRUCIBLE_E_UNSUPPORTED, "a batch of " + std::to_string(blocks) + " blocks");
  batch.words.insert(batch.words.begin(), heads.begin(), heads.end());
  batch.shape.blocks = static_cast<std::uint32_t>(blocks);
  return batch;
}

}  // namespace crucible::sdk
