// The binary form of SPIR-V: see spirv_module.hpp.
#include "plugins/spirv/spirv_module.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace crucible::spirv {
namespace {

constexpr std::uint32_t kMagic = 0x07230203, kVersion = 0x00010000, kSubgroupVersion = 0x00010100;
constexpr std::uint32_t kPhysical64 = 2, kOpenCl = 2, kModelKernel = 6;
constexpr std::uint32_t kLocalSize = 17, kContractionOff = 31, kSubgroupSize = 35;  // execution modes
constexpr std::uint32_t kDecorationBuiltIn = 11, kDecorationConstant = 22, kDecorationParameter = 38;
constexpr std::uint32_t kInline = 1;  // function control

/// A string as words, with its zero.
Words text_words(std::string_view text) {
  Words words(text.size() / 4 + 1, 0);
  for (std::size_t i = 0; i < text.size(); ++i)
    words[i / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) << (8 * (i % 4));
  return words;
}

std::uint32_t first_word(Op op, std::size_t operands) {
  return static_cast<std::uint32_t>(operands + 1) << 16 | static_cast<std::uint32_t>(op);
}

}  // namespace

void append(Words& words, Op op, std::initializer_list<std::uint32_t> operands) {
  words.push_back(first_word(op, operands.size()));
  words.insert(words.end(), operands);
}

void append(Words& words, Op op, const Words& operands) {
  words.push_back(first_word(op, operands.size()));
  words.insert(words.end(), operands.begin(), operands.end());
}

std::size_t SpirvModule::Hash::operator()(const Words& words) const {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::uint32_t word : words) hash = (hash ^ word) * 0x100000001b3u;
  return static_cast<std::size_t>(hash ^ hash >> 29);
}

SpirvModule::SpirvModule() : cl_functions_(new_id()) {
  add_capability(Capability::kKernel);
  add_capability(Capability::kAddresses);
}

Id SpirvModule::type(Op op, const Words& operands) {
  Words key = {static_cast<std::uint32_t>(op)};
  key.insert(key.end(), operands.begin(), operands.end());
  const auto [at, is_new] = known_.try_emplace(std::move(key), next_);
  if (!is_new) return at->second;
  const Id id = new_id();
  Words all = {id};
  all.insert(all.end(), operands.begin(), operands.end());
  append(globals_, op, all);
  return id;
}

Id SpirvModule::constant(Op op, Id of_type, const Words& operands) {
  Words key = {static_cast<std::uint32_t>(op), of_type};
  key.insert(key.end(), operands.begin(), operands.end());
  const auto [at, is_new] = known_.try_emplace(std::move(key), next_);
  if (!is_new) return at->second;
  const Id id = new_id();
  Words all = {of_type, id};
  all.insert(all.end(), operands.begin(), operands.end());
  append(globals_, op, all);
  return id;
}

Id SpirvModule::int_type(std::uint32_t bits) {
  if (bits == 8) add_capability(Capability::kInt8);
  if (bits == 16) add_capability(Capability::kInt16);
  if (bits == 64) add_capability(Capability::kInt64);
  return type(Op::kTypeInt, {bits, 0});
}

Id SpirvModule::float_type(std::uint32_t bits) {
  if (bits == 16) add_capability(Capability::kFloat16Buffer);
  if (bits == 64) add_capability(Capability::kFloat64);
  return type(Op::kTypeFloat, {bits});
}

Id SpirvModule::vector_type(Id component, std::uint32_t count) {
  if (count > 4) add_capability(Capability::kVector16);
  return type(Op::kTypeVector, {component, count});
}

Id SpirvModule::array_type(Id element, std::uint64_t count) {
  return type(Op::kTypeArray, {element, int_constant(64, count)});
}

Id SpirvModule::function_type(Id result, const Words& parameters) {
  Words operands = {result};
  operands.insert(operands.end(), parameters.begin(), parameters.end());
  return type(Op::kTypeFunction, operands);
}

Id SpirvModule::bool_constant(bool value) {
  return constant(value ? Op::kConstantTrue : Op::kConstantFalse, bool_type(), {});
}

Id SpirvModule::int_constant(std::uint32_t bits, std::uint64_t value) {
  const Id of_type = int_type(bits);
  const auto low = static_cast<std::uint32_t>(value);
  if (bits == 64) return constant(Op::kConstant, of_type, {low, static_cast<std::uint32_t>(value >> 32)});
  // Bits above those of a type without sign are zero.
  return constant(Op::kConstant, of_type, {bits == 32 ? low : low & ((1u << bits) - 1)});
}

Id SpirvModule::float_constant(std::uint32_t bits, double value) {
  const Id of_type = float_type(bits);
  if (bits == 32) {
    const auto word = std::isnan(value) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return constant(Op::kConstant, of_type, {word});
  }
  const auto words = std::isnan(value) ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(value);
  return constant(Op::kConstant, of_type, {static_cast<std::uint32_t>(words), static_cast<std::uint32_t>(words >> 32)});
}

Id SpirvModule::built_in(BuiltIn which) {
  Id& id = built_ins_[static_cast<std::uint32_t>(which)];
  if (id != 0) return id;
  const Id of_type = is_number(which) ? int_type(32) : vector_type(int_type(64), 3);
  const Id pointer = pointer_type(Storage::kInput, of_type);
  id = new_id();
  append(globals_, Op::kVariable, {pointer, id, static_cast<std::uint32_t>(Storage::kInput)});
  append(decorations_, Op::kDecorate, {id, kDecorationBuiltIn, static_cast<std::uint32_t>(which)});
  append(decorations_, Op::kDecorate, {id, kDecorationConstant});
  return id;
}

Id SpirvModule::group_variable(Id type) {
  const Id pointer = pointer_type(Storage::kWorkgroup, type), id = new_id();
  append(globals_, Op::kVariable, {pointer, id, static_cast<std::uint32_t>(Storage::kWorkgroup)});
  return id;
}

void SpirvModule::decorate_parameter(Id parameter, ParameterAttribute attribute) {
  append(decorations_, Op::kDecorate, {parameter, kDecorationParameter, static_cast<std::uint32_t>(attribute)});
}

void SpirvModule::add_entry_point(Id function, std::string_view name, const Words& built_ins) {
  Words operands = {kModelKernel, function};
  const Words text = text_words(name);
  operands.insert(operands.end(), text.begin(), text.end());
  operands.insert(operands.end(), built_ins.begin(), built_ins.end());
  append(entry_points_, Op::kEntryPoint, operands);
  append(modes_, Op::kExecutionMode, {function, kContractionOff});
}

void SpirvModule::set_group_size(Id function, std::uint32_t size) {
  append(modes_, Op::kExecutionMode, {function, kLocalSize, size, 1, 1});
}

void SpirvModule::set_subgroup_size(Id function, std::uint32_t size) {
  add_capability(Capability::kSubgroupDispatch);
  append(modes_, Op::kExecutionMode, {function, kSubgroupSize, size});
}

Words SpirvModule::words() const {
  const bool demands_subgroups = capabilities_.contains(Capability::kSubgroupDispatch);
  Words all = {kMagic, demands_subgroups ? kSubgroupVersion : kVersion, 0, next_, 0};
  for (const Capability capability : capabilities_)
    append(all, Op::kCapability, {static_cast<std::uint32_t>(capability)});
  if (capabilities_.contains(Capability::kSubgroupShuffle))
    append(all, Op::kExtension, text_words("SPV_INTEL_subgroups"));
  Words import = {cl_functions_};
  const Words set = text_words("OpenCL.std");
  import.insert(import.end(), set.begin(), set.end());
  append(all, Op::kExtInstImport, import);
  append(all, Op::kMemoryModel, {kPhysical64, kOpenCl});
  for (const Words* section : {&entry_points_, &modes_, &decorations_, &globals_, &functions_})
    all.insert(all.end(), section->begin(), section->end());
  return all;
}

FunctionWriter::FunctionWriter(SpirvModule& module, Id result, const Words& parameters) : module_(module) {
  const Id type = module.function_type(result, parameters);
  id_ = module.new_id();
  append(head_, Op::kFunction, {result, id_, kInline, type});
  for (const Id parameter : parameters) {
    parameters_.push_back(module.new_id());
    append(head_, Op::kFunctionParameter, {parameter, parameters_.back()});
  }
  block_ = module.new_id();
  append(head_, Op::kLabel, {block_});
}

Id FunctionWriter::value(Op op, Id type, std::initializer_list<std::uint32_t> operands) {
  const Id result = module_.new_id();
  value_as(result, op, type, operands);
  return result;
}

Id FunctionWriter::value(Op op, Id type, const Words& operands) {
  const Id result = module_.new_id();
  body_.push_back(first_word(op, operands.size() + 2));
  body_.push_back(type);
  body_.push_back(result);
  body_.insert(body_.end(), operands.begin(), operands.end());
  return result;
}

void FunctionWriter::value_as(Id result, Op op, Id type, std::initializer_list<std::uint32_t> operands) {
  body_.push_back(first_word(op, operands.size() + 2));
  body_.push_back(type);
  body_.push_back(result);
  body_.insert(body_.end(), operands);
}

Id FunctionWriter::cl_call(ClFunction function, Id type, std::initializer_list<std::uint32_t> operands) {
  Words all = {module_.cl_functions(), static_cast<std::uint32_t>(function)};
  all.insert(all.end(), operands);
  return value(Op::kExtInst, type, all);
}

Id FunctionWriter::local(Id type) {
  const Id pointer = module_.pointer_type(Storage::kFunction, type);
  const Id id = module_.new_id();
  append(variables_, Op::kVariable, {pointer, id, static_cast<std::uint32_t>(Storage::kFunction)});
  return id;
}

void FunctionWriter::open_block(Id label) {
  append(body_, Op::kLabel, {label});
  block_ = label;
}

void FunctionWriter::finish() {
  Words all = std::move(head_);
  all.insert(all.end(), variables_.begin(), variables_.end());
  all.insert(all.end(), body_.begin(), body_.end());
  append(all, Op::kFunctionEnd, {});
  module_.append_function(all);
}

}  // namespace crucible::spirv
