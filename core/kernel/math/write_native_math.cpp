// Run by the build: writes math_prelude() with a wrapper and a table entry for each of its functions as one C file,
// which native_math.cpp looks into. write_native_math OUTPUT
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "plugins/kernel_ir/functions.hpp"
#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::kernel {
namespace {

struct Type {
  std::string_view name, c;
};
constexpr Type kTypes[] = {{"bool", "_Bool"},  {"u8", "uint8_t"},  {"i8", "int8_t"},        {"i16", "int16_t"},
                           {"i32", "int32_t"}, {"i64", "int64_t"}, {"f16", "crucible_f16"}, {"bf16", "crucible_bf16"},
                           {"f32", "float"},   {"f64", "double"}};

class Writer {
 public:
  std::string run() {
    text_ = std::string(math_prelude());
    constexpr std::string_view kUnary[] = {"abs", "sqrt",    "floor", "exp", "log", "tanh",
                                           "erf", "sigmoid", "rsqrt", "sin", "cos"};
    for (const Type& type : kTypes) {
      for (std::string_view name : kUnary) add_call(name, type, 1);
      for (std::string_view name : {"max", "min", "pow"}) add_call(name, type, 2);
      for (const FunctionInfo& function : kFunctions) add_call(function.name, type, function.operands);
      for (const Type& to : kTypes) add_conversion(type, to);
    }
    for (const auto& [real, integer] : {std::pair{kTypes[8], kTypes[4]}, std::pair{kTypes[9], kTypes[5]}}) {
      add(fmt::format("order_key_{}", real.name), fmt::format("crucible_order_key_{}(a)", real.name), {real, {}},
          integer);
      add(fmt::format("from_order_key_{}", real.name), fmt::format("crucible_from_order_key_{}(a)", real.name),
          {integer, {}}, real);
    }
    text_ +=
        "const struct { const char* name; void (*function)(const void*, const void*, void*); } "
        "crucible_native_functions[] = {\n";
    for (const std::string& name : names_) text_ += fmt::format("  {{\"{0}\", native_{0}}},\n", name);
    text_ += fmt::format("}};\nconst __SIZE_TYPE__ crucible_native_function_count = {};\n", names_.size());
    return std::move(text_);
  }

 private:
  struct Operands {
    Type a, b;  // b without a name: one operand
  };

  void add(std::string name, std::string_view expression, const Operands& operands, const Type& result) {
    text_ += fmt::format("static void native_{}(const void* pa, const void* pb, void* pr) {{\n", name);
    text_ += fmt::format("  const {0} a = *(const {0}*)pa;\n", operands.a.c);
    text_ +=
        operands.b.name.empty() ? "  (void)pb;\n" : fmt::format("  const {0} b = *(const {0}*)pb;\n", operands.b.c);
    text_ += fmt::format("  *({}*)pr = {};\n}}\n", result.c, expression);
    names_.push_back(std::move(name));
  }

  /// Nothing for types that the prelude has no such function of.
  void add_call(std::string_view name, const Type& type, int operands) {
    const std::string function = fmt::format("crucible_{}_{}", name, type.name);
    const std::string_view prelude = math_prelude();
    // Those of integers, and rarer ones of f32, come out of macros.
    const bool in_macro = (is_integer(type) && prelude.contains(fmt::format("crucible_{}_##name(", name))) ||
                          (type.name == "f32" && prelude.contains(fmt::format("CRUCIBLE_ROUNDED({})", name)));
    if (!in_macro && !prelude.contains(function + "(")) return;
    add(fmt::format("{}_{}", name, type.name), fmt::format("{}({})", function, operands == 1 ? "a" : "a, b"),
        {type, operands == 1 ? Type{} : type}, type);
  }

  /// As plugins/sdk/print_kernel.cpp writes conversions.
  void add_conversion(const Type& from, const Type& to) {
    std::string expression = fmt::format("({})a", to.c);
    if (to.name == "bool") {
      expression = from.name == "bf16" ? "(crucible_bf16_to_f32(a) != 0)" : "(a != 0)";
    } else if (from.name == to.name) {
      expression = "a";
    } else if (from.name == "bf16") {
      if (is_integer(to)) return;  // by way of f32
      expression = "crucible_bf16_to_f32(a)";
    } else if (to.name == "bf16") {
      expression = "crucible_f32_to_bf16(a)";
    } else if (is_integer(to) && (from.name == "f32" || from.name == "f64")) {
      expression = fmt::format("({})crucible_{}_to_{}(a)", to.c, from.name, by_way_of(to));
    } else if (is_integer(to) && from.name == "f16") {
      expression = fmt::format("({})crucible_f32_to_{}((float)a)", to.c, by_way_of(to));
    }
    add(fmt::format("{}_from_{}", to.name, from.name), expression, {from, {}}, to);
  }

  static std::string_view by_way_of(const Type& integer) {
    return integer.name == "i64" || integer.name == "u8" ? "i64" : "i32";
  }
  static bool is_integer(const Type& type) { return type.name[0] == 'i' || type.name == "u8"; }

  std::string text_;
  std::vector<std::string> names_;
};

}  // namespace
}  // namespace crucible::kernel

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: write_native_math OUTPUT\n");
    return 2;
  }
  const std::string text = crucible::kernel::Writer().run();
  std::FILE* file = std::fopen(argv[1], "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (!written) fmt::print(stderr, "write_native_math: cannot write {}\n", argv[1]);
  return written ? 0 : 1;
}
