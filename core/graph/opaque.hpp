// Opaque ops: what a framework computed and no neutral op expresses. A program keeps the op's schema and its recorded
// arguments, so that a plugin that has the framework can run it; nothing in core/ knows what it means.
//
// The op's tensors are ordinary operands and results. A result is either a tensor that the framework returned or the
// new content of an argument that it wrote in place: as everywhere in a program, nothing is overwritten.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// What else an op does besides making its results.
enum class OpaqueEffect : std::uint8_t {
  kPure,     // nothing: it may be merged with an equal one, and goes when nobody wants its results
  kRandom,   // draws random numbers that were not recorded
  kUnknown,  // an op of somebody's own library: everything may depend on it
};

/// One argument as it was recorded. Tensors, and numbers that differ between iterations, are operands of the op.
struct OpaqueArg {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,          // integer
    kInteger,       // integer
    kReal,          // real
    kComplex,       // real, imaginary
    kText,          // text
    kDType,         // integer: a DType
    kDevice,        // text; whoever runs the op puts its own device in its place
    kLayout,        // integer: the framework's number
    kMemoryFormat,  // integer: the framework's number
    kGenerator,     // text; whoever runs the op takes its own
    kTensor,        // operand; a number there means a tensor of no dimensions that was a number of the language
    kNumber,        // operand: a number
    kList,          // items
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  double real = 0, imaginary = 0;
  std::string text;
  std::uint32_t operand = kNone;  // index in Op::inputs
  std::vector<OpaqueArg> items;
};

/// Where one of Op::outputs comes from: exactly one of the two is given.
struct OpaqueResult {
  std::uint32_t written = kNone;   // operand (index in Op::inputs) of the argument that is written in place
  std::uint32_t returned = kNone;  // position among the returned tensors, items of lists counted one by one
};

/// The entry of Program::opaques that an op of kind kOpaque names by its attribute `index`. Never changed once it is in
/// a program: copies of the program share it.
struct Opaque {
  std::string schema;                 // "aten::frobnicate.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
  std::vector<OpaqueArg> args;        // in the schema's order, defaults filled in
  std::vector<OpaqueResult> results;  // one per Op::outputs
  OpaqueEffect effect = OpaqueEffect::kPure;
  std::string reason;        // why it has no lowering, for people; "" when its name is unknown. No part of its identity
  std::string name() const;  // "aten::frobnicate.out"
};

/// The entry of an op of kind kOpaque. The program must pass verify().
const Opaque& opaque_of(const Program& program, const Op& op);

/// True for an opaque op that does more than make its results. False for all neutral ops.
bool has_effects(const Program& program, const Op& op);

/// Schema, arguments, results and effect as one line of JSON: what identifies the op apart from its operands. Numbers
/// are exact.
std::string to_json(const Opaque& opaque);

/// "operand 0, 2, [1, 1], none".
std::string arguments_text(const Opaque& opaque);

/// The rules of kOpaque: the entry exists, each argument's operand exists and fits its kind, each tensor operand is
/// named by an argument, each result comes from one place. Errors: kInternal with the rule.
Result<void> verify_opaque(const Program& program, OpId index);

/// One opaque op of a program with how often it stands there and where first.
struct OpaqueUse {
  std::string name, module, site, reason;
  std::uint32_t count = 0;
};

/// All opaque ops of a program, by name.
std::vector<OpaqueUse> opaque_uses(const Program& program);

/// "2 ops have no lowering:" and a line for each with its count and its first place: the one sentence that everybody
/// says who cannot run them.
std::string opaque_list(const Program& program);

/// The op as a plugin gets it that runs a framework's ops: one JSON document (docs/opaque-ops.md).
std::string opaque_kernel(const Program& program, const Op& op);

}  // namespace crucible::graph
