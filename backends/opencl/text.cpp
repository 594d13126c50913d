// A kernel's function as the SDK prints it, and around it the kernel that OpenCL starts: see text.hpp.
//
// OpenCL 1.2 hands buffers over, not addresses, and sub-buffers only at the device's own alignment, while a plan's
// buffers lie anywhere in one arena. So a kernel gets the arena and an offset for each of its buffers, and adds them
// itself; where addresses are pointers, it gets those. Fused optimizers have more buffers than some devices take
// arguments: there offsets or addresses are in a table.
#include "backends/opencl/text.hpp"

#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/mathematics.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

const sdk::Dialect& language_of(Teams teams) {
  if (teams == Teams::kGroups) return sdk::dialect_opencl_groups();
  return teams == Teams::kSubgroups ? sdk::dialect_opencl_subgroups() : sdk::dialect_opencl();
}

/// The loop over items as the mapping has it; for chunks a plain one, with what helps a compiler to vectorise it.
sdk::Dialect dialect_for(Mapping mapping, Teams teams) {
  sdk::Dialect dialect = language_of(teams);
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

std::string text_before_kernels(const crucible_device& device) { return sdk::math_text(language_of(device.teams)); }

KernelText kernel_text(const sdk::Kernel& kernel, std::string_view name, const crucible_device& device,
                       Buffers buffers) {
  const bool chunks = device.mapping == Mapping::kChunks;
  const sdk::Dialect dialect = dialect_for(device.mapping, device.teams);
  sdk::Team team = device.has_teams() ? sdk::plan_threads(kernel, device.team_lanes) : sdk::Team();
  if (device.teams == Teams::kGroups) team.most = 1;
  const bool is_team = team.lanes > 1;
  const std::string function = "items_of_" + std::string(name);
  std::string parameters, arguments, memories, shared;
  for (const sdk::SharedArray& array : sdk::shared_arrays(kernel, dialect, team)) {
    shared += "  " + std::string(dialect.shared) + array.type + " " + array.name + array.size + ";\n";
    arguments += array.name + ", ";
  }
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
  KernelText result;
  result.text = sdk::print_kernel(kernel, dialect, function, team) + "__kernel ";
  const auto of_size = [&](const std::string& attribute, std::uint32_t size, std::string_view rest = "") {
    result.text += "__attribute__((" + attribute + "(" + std::to_string(size) + std::string(rest) + "))) ";
  };
  if (chunks) of_size("reqd_work_group_size", 1, ", 1, 1");
  const bool is_whole_group = is_team && (device.teams == Teams::kGroups || team.warps > 1);
  if (is_whole_group) of_size("reqd_work_group_size", team.lanes, ", 1, 1");
  if (is_team && device.teams == Teams::kSubgroups) of_size("intel_reqd_sub_group_size", device.team_lanes);
  result.text += "void " + std::string(name) + "(" + parameters + "long begin, long end, long chunk) {\n" + shared;
  if (buffers == Buffers::kTable) result.text += "  __global uchar* const m[] = {" + memories + "};\n";
  if (chunks) result.text += "  begin += (long)get_global_id(0) * chunk;\n  end = min(begin + chunk, end);\n";
  result.text += "  " + function + "(" + arguments + "begin, end);\n}\n";
  result.shape = {.lanes = team.lanes,
                  .most_threads = is_team ? team.lanes * team.most : 0,
                  .alignment = sdk::assumed_alignment(kernel, dialect, team)};
  for (const sdk::Stmt& stmt : kernel.body) {
    const auto wide = team.wide.find(&stmt);
    if (wide != team.wide.end()) result.shape.items = wide->second.width;
  }
  return result;
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
