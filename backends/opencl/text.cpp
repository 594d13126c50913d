// A kernel's function as the SDK prints it, and around it the kernel that OpenCL starts: see text.hpp.
//
// OpenCL 1.2 hands buffers over, not addresses, and sub-buffers only at the device's own alignment, while a plan's
// buffers lie anywhere in one arena. So a kernel gets the arena and an offset for each of its buffers, and adds them
// itself; where addresses are pointers, it gets those. Fused optimizers have more buffers than some devices take
// arguments: there offsets or addresses are in a table.
#include "backends/opencl/text.hpp"

#include "plugins/sdk/c_dialect.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

/// The loop over items as the mapping has it; for chunks a plain one, with what helps a compiler to vectorise it.
sdk::Dialect dialect_for(Mapping mapping) {
  sdk::Dialect dialect = sdk::dialect_opencl();
  dialect.kernel = "static inline void ";
  if (mapping == Mapping::kChunks) {
    dialect.first_item = dialect.item_step = "";
    dialect.vector_loop = sdk::dialect_c().vector_loop;
    dialect.wide_vector_loop = sdk::dialect_c().wide_vector_loop;
    dialect.unrolled_loop = sdk::dialect_c().unrolled_loop;
  }
  return dialect;
}

std::string pointee(const sdk::IrBuffer& buffer) {
  static constexpr std::string_view kNames[] = {"uint8_t", "uint8_t",      "int8_t",        "int16_t", "int32_t",
                                                "int64_t", "crucible_f16", "crucible_bf16", "float",   "double"};
  return std::string(buffer.written ? "" : "const ") + std::string(kNames[static_cast<std::size_t>(buffer.type)]);
}

struct Place {
  std::string parameters, address;
};

/// Buffer `i`: what the kernel takes for it, and where it is.
Place place_of(std::size_t i, Buffers buffers) {
  const std::string number = std::to_string(i);
  switch (buffers) {
    case Buffers::kArguments:
      return {"__global uchar* m" + number + ", ulong o" + number + ", ", "m" + number + " + o" + number};
    case Buffers::kTable:
      return {"", "m[table[" + std::to_string(2 * i) + "]] + table[" + std::to_string(2 * i + 1) + "]"};
    case Buffers::kPointers:
      return {"__global uchar* m" + number + ", ", "m" + number};
    case Buffers::kPointerTable:
      return {"", "table[" + number + "]"};
  }
  return {};
}

}  // namespace

std::string kernel_text(const sdk::Kernel& kernel, std::string_view name, Mapping mapping, Buffers buffers) {
  const bool chunks = mapping == Mapping::kChunks;
  const std::string function = "items_of_" + std::string(name);
  std::string parameters, arguments, memories;
  for (std::size_t i = 0; buffers == Buffers::kTable && i < kTableMemories; ++i) {
    parameters += "__global uchar* m" + std::to_string(i) + ", ";
    memories += (i == 0 ? "m" : ", m") + std::to_string(i);
  }
  if (is_table(buffers)) parameters += "__global const ulong* table, ";
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Place place = place_of(i, buffers);
    parameters += place.parameters;
    arguments += "(__global " + pointee(kernel.buffers[i]) + "*)(" + place.address + "), ";
  }
  for (std::uint32_t i = 0; i < kernel.scalars.size(); ++i) {
    parameters += std::string(sdk::scalar_type(kernel.scalars[i])) + " s" + std::to_string(i) + ", ";
    arguments += "s" + std::to_string(i) + ", ";
  }
  std::string text = sdk::print_kernel(kernel, dialect_for(mapping), function);
  text += std::string("__kernel ") + (chunks ? "__attribute__((reqd_work_group_size(1, 1, 1))) " : "") + "void " +
          std::string(name) + "(" + parameters + "long begin, long end, long chunk) {\n";
  if (buffers == Buffers::kTable) text += "  __global uchar* const m[] = {" + memories + "};\n";
  if (chunks) text += "  begin += (long)get_global_id(0) * chunk;\n  end = min(begin + chunk, end);\n";
  return text + "  " + function + "(" + arguments + "begin, end);\n}\n";
}

std::uint64_t argument_bytes(const sdk::Kernel& kernel, Buffers buffers) {
  std::uint64_t places = 8;  // of a table alone
  if (buffers == Buffers::kTable) places = 8 * (kTableMemories + 1);
  if (!is_table(buffers)) places = (buffers == Buffers::kPointers ? 8 : 16) * kernel.buffers.size();
  return places + 8 * std::uint64_t{kernel.scalars.size()} + 24;
}

Buffers choose_buffers(const sdk::Kernel& kernel, std::uint64_t most_argument_bytes, bool pointers) {
  const Buffers arguments = pointers ? Buffers::kPointers : Buffers::kArguments;
  if (argument_bytes(kernel, arguments) <= most_argument_bytes) return arguments;
  return pointers ? Buffers::kPointerTable : Buffers::kTable;
}

}  // namespace crucible_opencl
