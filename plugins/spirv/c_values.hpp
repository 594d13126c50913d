// Values of the prelude's C while its functions become SPIR-V: C's conversions and operators, one instruction each,
// constants folded.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plugins/spirv/prelude_text.hpp"
#include "plugins/spirv/spirv_module.hpp"

namespace crucible::spirv {

struct CValue {
  CType type = kCInt;
  Id id = 0;                  // 0: a constant, not yet in the module
  std::uint64_t integer = 0;  // of a constant: sign-extended where its type has a sign
  double real = 0;
  std::vector<Id> members{};  // of a struct, which has no id
  bool is_constant() const { return id == 0 && type.is_number(); }
};

/// Both throw Failure INTERNAL for what they do not know.
CValue read_number(std::string_view text);
[[noreturn]] void not_in_prelude(std::string_view function, std::string_view what);

class CValues {
 public:
  CValues(SpirvModule& module, FunctionWriter& writer, std::string_view function)
      : module_(module), writer_(writer), function_(function) {}

  Id type_id(const CType& type);
  Id id(const CValue& value);
  CValue of(const CType& type, Id id) { return {.type = type, .id = id}; }
  /// As C converts by assignment or cast.
  CValue convert(const CValue& value, const CType& to);
  /// An OpTypeBool: whether it is not 0.
  Id truth(const CValue& value);
  CValue binary(std::string_view sign, const CValue& a, const CValue& b);
  CValue unary(std::string_view sign, const CValue& a);
  CValue choose(const CValue& condition, const CValue& a, const CValue& b);

 private:
  CType common(const CValue& a, const CValue& b) const;
  CValue arithmetic(std::string_view sign, const CValue& a, const CValue& b);
  CValue comparison(std::string_view sign, const CValue& a, const CValue& b);
  CValue bitwise(std::string_view sign, const CValue& a, const CValue& b);
  CValue shift(std::string_view sign, const CValue& a, const CValue& b);
  CValue from_float(const CValue& value, const CType& to);

  SpirvModule& module_;
  FunctionWriter& writer_;
  std::string_view function_;
};

}  // namespace crucible::spirv
