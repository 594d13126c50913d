// The only file that knows the framework's distributed classes; without them in the framework, objects are type names.
#include "frontends/torch/objects.hpp"

#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>

#include <string>

#if CRUCIBLE_TORCH_HAS_C10D
#ifndef USE_C10D
#define USE_C10D
#endif
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#endif

namespace crucible::recorder {

namespace {

std::string class_name(const c10::IValue& value) {
  const auto name = value.toObjectRef().type()->name();
  return name.has_value() ? name->qualifiedName() : "object";
}

#if CRUCIBLE_TORCH_HAS_C10D
const char* reduction_name(c10d::ReduceOp::RedOpType reduction) {
  switch (reduction) {
    case c10d::ReduceOp::SUM: return "sum";
    case c10d::ReduceOp::AVG: return "avg";
    case c10d::ReduceOp::PRODUCT: return "product";
    case c10d::ReduceOp::MIN: return "min";
    case c10d::ReduceOp::MAX: return "max";
    case c10d::ReduceOp::BAND: return "band";
    case c10d::ReduceOp::BOR: return "bor";
    case c10d::ReduceOp::BXOR: return "bxor";
    case c10d::ReduceOp::PREMUL_SUM: return "premul_sum";
    default: return "unknown reduction";
  }
}

/// True when it was one of the distributed classes.
bool encode_distributed(Encoder& encoder, const c10::IValue& value, const std::string& name) {
  if (name.ends_with(".c10d.ReduceOp")) {
    encoder.string(reduction_name(value.toCustomClass<c10d::ReduceOp>()->op_));
    return true;
  }
  if (name.ends_with(".c10d.ProcessGroup")) {
    const auto group = value.toCustomClass<c10d::ProcessGroup>();
    // Plain strings: the framework's headers bring a library of their own by the name of ours (fmt).
    encoder.opaque("process group '" + group->getGroupName() + "' rank " + std::to_string(group->getRank()) + " of " +
                   std::to_string(group->getSize()));
    return true;
  }
  return false;
}
#endif

}  // namespace

void encode_object(Encoder& encoder, const c10::IValue& value) {
  const std::string name = class_name(value);
#if CRUCIBLE_TORCH_HAS_C10D
  if (encode_distributed(encoder, value, name)) return;
#endif
  encoder.opaque(name);
}

}  // namespace crucible::recorder
