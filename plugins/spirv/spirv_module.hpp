// A SPIR-V module under construction: the sections that the specification orders, types and constants that exist once,
// and the functions. It knows the binary form and nothing of kernels; emit_kernel.hpp and prelude_functions.hpp write
// through it.
//
// The form is OpenCL's: Kernel, Physical64, memory model OpenCL, version 1.0: nothing newer is needed, so any driver
// will do; 1.1, and SPV_INTEL_subgroups, where a kernel demands the size of its sub-groups. Capabilities are those that
// the types and instructions in use need.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace crucible::spirv {

using Id = std::uint32_t;
using Words = std::vector<std::uint32_t>;

/// Instructions that are written, with the numbers of the specification (https://registry.khronos.org/SPIR-V/).
enum class Op : std::uint16_t {
  kExtension = 10,
  kExtInstImport = 11,
  kExtInst = 12,
  kMemoryModel = 14,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kCapability = 17,
  kTypeVoid = 19,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeArray = 28,
  kTypeStruct = 30,
  kTypePointer = 32,
  kTypeFunction = 33,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kConstantNull = 46,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kVariable = 59,
  kLoad = 61,
  kStore = 62,
  kInBoundsAccessChain = 66,
  kInBoundsPtrAccessChain = 70,
  kDecorate = 71,
  kCompositeConstruct = 80,
  kCompositeExtract = 81,
  kConvertFToU = 109,
  kConvertFToS = 110,
  kConvertSToF = 111,
  kConvertUToF = 112,
  kUConvert = 113,
  kSConvert = 114,
  kFConvert = 115,
  kConvertUToPtr = 120,
  kBitcast = 124,
  kSNegate = 126,
  kFNegate = 127,
  kIAdd = 128,
  kFAdd = 129,
  kISub = 130,
  kFSub = 131,
  kIMul = 132,
  kFMul = 133,
  kUDiv = 134,
  kSDiv = 135,
  kFDiv = 136,
  kUMod = 137,
  kSRem = 138,
  kLogicalEqual = 164,
  kLogicalNotEqual = 165,
  kLogicalOr = 166,
  kLogicalAnd = 167,
  kLogicalNot = 168,
  kSelect = 169,
  kIEqual = 170,
  kINotEqual = 171,
  kULessThan = 176,
  kSLessThan = 177,
  kULessThanEqual = 178,
  kSLessThanEqual = 179,
  kFOrdEqual = 180,
  kFUnordNotEqual = 183,
  kFOrdLessThan = 184,
  kFOrdLessThanEqual = 188,
  kShiftRightLogical = 194,
  kShiftRightArithmetic = 195,
  kShiftLeftLogical = 196,
  kBitwiseOr = 197,
  kBitwiseXor = 198,
  kBitwiseAnd = 199,
  kNot = 200,
  kControlBarrier = 224,
  kPhi = 245,
  kLoopMerge = 246,
  kSelectionMerge = 247,
  kLabel = 248,
  kBranch = 249,
  kBranchConditional = 250,
  kReturn = 253,
  kReturnValue = 254,
  kUnreachable = 255,
  kSubgroupShuffleXor = 5574,  // SPV_INTEL_subgroups
};

enum class Capability : std::uint32_t {
  kAddresses = 4,
  kKernel = 6,
  kVector16 = 7,
  kFloat16Buffer = 8,
  kFloat64 = 10,
  kInt64 = 11,
  kInt16 = 22,
  kInt8 = 39,
  kSubgroupDispatch = 58,
  kSubgroupShuffle = 5568,  // SPV_INTEL_subgroups
};

enum class Storage : std::uint32_t { kInput = 1, kWorkgroup = 4, kCrossWorkgroup = 5, kFunction = 7 };
enum class BuiltIn : std::uint32_t {
  kNumWorkgroups = 24,
  kWorkgroupId = 26,
  kLocalInvocationId = 27,
  kGlobalInvocationId = 28,
  kGlobalSize = 31,
  kNumSubgroups = 38,  // these three are one number of 32 bits
  kSubgroupId = 40,
  kSubgroupLane = 41
};
enum class ParameterAttribute : std::uint32_t { kNoAlias = 4, kNoWrite = 6 };
/// Functions of the extended instruction set OpenCL.std.
enum class ClFunction : std::uint32_t {
  kFloor = 25,
  kFma = 26,
  kSqrt = 61,
  kVloadn = 171,
  kVstoren = 172,
  kVloadHalf = 173,
  kVstoreHalfR = 176
};

class SpirvModule {
 public:
  SpirvModule();

  Id new_id() { return next_++; }

  // Types and constants: the same id for the same question. Integers have no sign, as OpenCL wants it.
  Id void_type() { return type(Op::kTypeVoid, {}); }
  Id bool_type() { return type(Op::kTypeBool, {}); }
  Id int_type(std::uint32_t bits);
  /// 16 only to be pointed to: vload_half and vstore_half convert.
  Id float_type(std::uint32_t bits);
  Id vector_type(Id component, std::uint32_t count);
  Id array_type(Id element, std::uint64_t count);
  Id struct_type(const Words& members) { return type(Op::kTypeStruct, members); }
  Id pointer_type(Storage storage, Id pointee) {
    return type(Op::kTypePointer, {static_cast<std::uint32_t>(storage), pointee});
  }
  Id function_type(Id result, const Words& parameters);
  Id bool_constant(bool value);
  /// Cut to the bits.
  Id int_constant(std::uint32_t bits, std::uint64_t value);
  /// Rounded to f32 when `bits` is 32; any NaN is the quiet one without payload.
  Id float_constant(std::uint32_t bits, double value);
  Id null_constant(Id of_type) { return constant(Op::kConstantNull, of_type, {}); }

  /// The variable that holds a built-in vector of three u64, or a u32 of what counts sub-groups.
  Id built_in(BuiltIn which);
  static bool is_number(BuiltIn which) { return which >= BuiltIn::kNumSubgroups; }
  /// A variable that the work-items of a group share, uninitialised.
  Id group_variable(Id type);
  Id cl_functions() const { return cl_functions_; }
  void add_capability(Capability capability) { capabilities_.insert(capability); }
  void decorate_parameter(Id parameter, ParameterAttribute attribute);
  /// The function may be started under this name; floating-point contraction is off in it and in what it calls.
  void add_entry_point(Id function, std::string_view name, const Words& built_ins);
  /// Its groups have so many work-items, in one dimension.
  void set_group_size(Id function, std::uint32_t size);
  /// Its sub-groups have so many.
  void set_subgroup_size(Id function, std::uint32_t size);
  /// A whole function, from OpFunction to OpFunctionEnd.
  void append_function(const Words& words) { functions_.insert(functions_.end(), words.begin(), words.end()); }

  /// The finished module. Threads: one at a time per module, as everything here.
  Words words() const;

 private:
  struct Hash {
    std::size_t operator()(const Words& words) const;
  };
  Id type(Op op, const Words& operands);
  Id constant(Op op, Id of_type, const Words& operands);

  Id next_ = 1;
  Id cl_functions_ = 0;
  std::set<Capability> capabilities_;
  std::unordered_map<Words, Id, Hash> known_;  // by the instruction without its result
  std::unordered_map<std::uint32_t, Id> built_ins_;
  Words entry_points_, modes_, decorations_, globals_, functions_;
};

/// Appends one instruction.
void append(Words& words, Op op, std::initializer_list<std::uint32_t> operands);
void append(Words& words, Op op, const Words& operands);

/// A function under construction. Its variables may be asked for anywhere; they come out at its beginning, as they
/// must.
class FunctionWriter {
 public:
  FunctionWriter(SpirvModule& module, Id result, const Words& parameters);

  Id id() const { return id_; }
  Id parameter(std::size_t i) const { return parameters_[i]; }
  /// The block that is written to.
  Id block() const { return block_; }

  Id value(Op op, Id type, std::initializer_list<std::uint32_t> operands);
  Id value(Op op, Id type, const Words& operands);
  /// The same with a result that was named before, in a phi.
  void value_as(Id result, Op op, Id type, std::initializer_list<std::uint32_t> operands);
  void effect(Op op, std::initializer_list<std::uint32_t> operands) { append(body_, op, operands); }
  Id cl_call(ClFunction function, Id type, std::initializer_list<std::uint32_t> operands);
  /// A pointer to a variable of the function, uninitialised.
  Id local(Id type);
  Id load(Id type, Id pointer, std::uint32_t alignment) { return value(Op::kLoad, type, {pointer, 2, alignment}); }
  void store(Id pointer, Id stored, std::uint32_t alignment) { effect(Op::kStore, {pointer, stored, 2, alignment}); }
  void open_block(Id label);
  void branch(Id label) { effect(Op::kBranch, {label}); }
  /// How much is written: the same number twice, and nothing came between.
  std::size_t size() const { return body_.size(); }
  /// Adds the function to its module. Once, at the end.
  void finish();

 private:
  SpirvModule& module_;
  Id id_ = 0, block_ = 0;
  Words parameters_, head_, variables_, body_;
};

}  // namespace crucible::spirv
