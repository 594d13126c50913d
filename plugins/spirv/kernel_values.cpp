// Types, memory and conversions of kernels in SPIR-V: see kernel_writer.hpp.
#include <limits>

#include "plugins/spirv/kernel_writer.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible::spirv {

using sdk::Type;

namespace {

std::uint32_t bits(Type type) { return 8 * size_bytes(type); }
/// Of a conversion that rounds: to nearest even.
constexpr std::uint32_t kNearestEven = 0;

}  // namespace

Id value_type(SpirvModule& module, Type type) {
  if (type == Type::kBool) return module.bool_type();
  if (type == Type::kF32 || type == Type::kF64) return module.float_type(bits(type));
  return module.int_type(bits(type));
}

Id memory_type(SpirvModule& module, Type type) {
  return type == Type::kBool ? module.int_type(8) : value_type(module, type);
}

Id KernelWriter::number(Type type, double value) {
  if (type == Type::kBool) return module_.bool_constant(value != 0);
  if (type == Type::kF32 || type == Type::kF64) return module_.float_constant(bits(type), value);
  return module_.int_constant(bits(type), static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
}

Id KernelWriter::first_of(BuiltIn which) {
  used_.insert(which);
  if (SpirvModule::is_number(which)) {
    const Id number = writer_->load(module_.int_type(32), module_.built_in(which), 4);
    return writer_->value(Op::kUConvert, module_.int_type(64), {number});
  }
  const Id u64 = module_.int_type(64), vector = module_.vector_type(u64, 3);
  return writer_->value(Op::kCompositeExtract, u64, {writer_->load(vector, module_.built_in(which), 32), 0});
}

Id KernelWriter::buffer_element(std::uint32_t buffer, Id index) {
  const Id pointer = module_.pointer_type(Storage::kCrossWorkgroup, memory_type(module_, kernel_.buffers[buffer].type));
  return writer_->value(Op::kInBoundsPtrAccessChain, pointer, {buffers_[buffer], index});
}

Id KernelWriter::array_element(std::uint32_t array, Id index) {
  const Id pointer = module_.pointer_type(is_team() ? Storage::kWorkgroup : Storage::kFunction,
                                          memory_type(module_, kernel_.arrays[array].type));
  if (is_subgroup()) return writer_->value(Op::kInBoundsAccessChain, pointer, {arrays_[array], team_, index});
  return writer_->value(Op::kInBoundsAccessChain, pointer, {arrays_[array], index});
}

Id KernelWriter::load(Type type, Id pointer) {
  const Id value = writer_->load(memory_type(module_, type), pointer, size_bytes(type));
  if (type != Type::kBool) return value;
  return writer_->value(Op::kINotEqual, module_.bool_type(), {value, module_.int_constant(8, 0)});
}

void KernelWriter::store(Type type, Id pointer, Id value) {
  writer_->store(pointer, type == Type::kBool ? from_bool(value, Type::kU8) : value, size_bytes(type));
}

Id KernelWriter::call(std::string_view function, Type of, Type result, std::initializer_list<std::uint32_t> operands) {
  std::string name = "crucible_" + std::string(function);
  if (of != Type::kBF16) name += "_" + std::string(crucible::name(of));
  Words all = {functions_.get(name)};
  all.insert(all.end(), operands);
  return writer_->value(Op::kFunctionCall, value_type(module_, result), all);
}

Id KernelWriter::to_bool(Id value, Type from) {
  if (from == Type::kF16) return to_bool(half_to_single(value), Type::kF32);
  if (from == Type::kBF16) return to_bool(convert(value, from, Type::kF32), Type::kF32);
  return writer_->value(is_floating(from) ? Op::kFUnordNotEqual : Op::kINotEqual, module_.bool_type(),
                        {value, number(from, 0)});
}

Id KernelWriter::from_bool(Id value, Type to) {
  if (to == Type::kF16 || to == Type::kBF16) return convert(from_bool(value, Type::kF32), Type::kF32, to);
  return writer_->value(Op::kSelect, value_type(module_, to), {value, number(to, 1), number(to, 0)});
}

/// Towards zero, the lowest integer for NaN and what has no place, as crucible_f64_to_i64 and crucible_f64_to_i32 of
/// the prelude say; then cut.
Id KernelWriter::float_to_integer(Id value, Type from, Type to) {
  const bool is_wide = to == Type::kI64 || to == Type::kU8;
  const Id truth = module_.bool_type(), type = value_type(module_, from), i64_type = module_.int_type(64);
  const Id above_least = writer_->value(Op::kFOrdLessThanEqual, truth, {number(from, -0x1p63), value});
  const Id below_most = writer_->value(Op::kFOrdLessThan, truth, {value, number(from, 0x1p63)});
  const Id is_inside = writer_->value(Op::kLogicalAnd, truth, {above_least, below_most});
  const Id integer = writer_->value(Op::kConvertFToS, i64_type,
                                    {writer_->value(Op::kSelect, type, {is_inside, value, number(from, -0x1p63)})});
  if (is_wide) return convert(integer, Type::kI64, to);
  const Id least = i64(std::numeric_limits<std::int32_t>::min()), most = i64(std::numeric_limits<std::int32_t>::max());
  const Id is_left = writer_->value(Op::kSLessThan, truth, {integer, least}),
           is_right = writer_->value(Op::kSLessThan, truth, {most, integer});
  const Id is_outside = writer_->value(Op::kLogicalOr, truth, {is_left, is_right});
  return convert(writer_->value(Op::kSelect, i64_type, {is_outside, least, integer}), Type::kI64, to);
}

Id KernelWriter::integer_to_float(Id value, Type from, Type to) {
  if (to == Type::kF16 || to == Type::kBF16) return convert(integer_to_float(value, from, Type::kF32), Type::kF32, to);
  return writer_->value(from == Type::kU8 ? Op::kConvertUToF : Op::kConvertSToF, value_type(module_, to), {value});
}

/// Where the bits of a half lie for the two conversions that every device has (values of that type it need not have).
Id KernelWriter::half_pointer() {
  if (half_bits_ == 0) {
    half_bits_ = writer_->local(module_.int_type(16));
  }
  return writer_->value(Op::kBitcast, module_.pointer_type(Storage::kFunction, module_.float_type(16)), {half_bits_});
}

Id KernelWriter::half_to_single(Id half) {
  const Id pointer = half_pointer();
  writer_->store(half_bits_, half, 2);
  return writer_->cl_call(ClFunction::kVloadHalf, module_.float_type(32), {i64(0), pointer});
}

Id KernelWriter::to_half(Id value) {
  const Id pointer = half_pointer();
  writer_->cl_call(ClFunction::kVstoreHalfR, module_.void_type(), {value, i64(0), pointer, kNearestEven});
  return writer_->load(module_.int_type(16), half_bits_, 2);
}

Id KernelWriter::convert(Id value, Type from, Type to) {
  if (from == to) return value;
  if (to == Type::kBool) return to_bool(value, from);
  if (from == Type::kBool) return from_bool(value, to);
  if (from == Type::kF16) return convert(half_to_single(value), Type::kF32, to);
  if (from == Type::kBF16) {
    const Id single = call("bf16_to_f32", Type::kBF16, Type::kF32, {value});
    return convert(single, Type::kF32, to);
  }
  if (!is_floating(from)) {
    if (is_floating(to)) return integer_to_float(value, from, to);
    if (bits(from) == bits(to)) return value;
    return writer_->value(from == Type::kU8 ? Op::kUConvert : Op::kSConvert, value_type(module_, to), {value});
  }
  if (to == Type::kF16) return to_half(value);
  if (to == Type::kBF16) return call("f32_to_bf16", Type::kBF16, Type::kBF16, {convert(value, from, Type::kF32)});
  if (!is_floating(to)) return float_to_integer(value, from, to);
  return writer_->value(Op::kFConvert, value_type(module_, to), {value});
}

}  // namespace crucible::spirv
