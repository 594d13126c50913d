// From the prelude's tokens to SPIR-V functions in one pass, without a tree: see prelude_functions.hpp.
//
// A function without branches and loops needs no variables: a name is the value that it got last. In one with them
// every name is a variable of the function, which any driver's compiler turns into registers.
#include "plugins/spirv/prelude_functions.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "plugins/spirv/c_values.hpp"

namespace crucible::spirv {
namespace {

using Kind = CType::Kind;

/// Operators of two operands, weakest first; "" for none.
constexpr std::string_view kLevels[][4] = {
    {"||"},       {"&&"},     {"|"},          {"^"}, {"&"}, {"==", "!="}, {"<", "<=", ">", ">="},
    {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}};

class Translator {
 public:
  Translator(const PreludeText& text, SpirvModule& module, PreludeFunctions& functions, const CFunction& function)
      : text_(text),
        module_(module),
        functions_(functions),
        function_(function),
        writer_(module, functions.type_id(function.result), types(function)),
        values_(module, writer_, function.name),
        at_(function.body) {}

  Id run() {
    is_straight_ = !has_branches();
    for (std::size_t i = 0; i < function_.parameters.size(); ++i) {
      const auto& [name, type] = function_.parameters[i];
      declare(name, type, values_.of(type, writer_.parameter(i)));
    }
    statement();
    if (is_open_) writer_.effect(Op::kUnreachable, {});
    writer_.finish();
    return writer_.id();
  }

 private:
  /// What a name stands for: a value, or where it is kept.
  struct Local {
    CValue value;
    Id pointer = 0;
  };

  Words types(const CFunction& function) {
    Words ids;
    for (const auto& [name, type] : function.parameters) ids.push_back(functions_.type_id(type));
    return ids;
  }

  // ---- tokens ----

  const Token& token(std::size_t ahead = 0) const { return text_.token(at_ + ahead); }
  bool is(std::string_view sign) const { return token() == sign; }
  bool take(std::string_view sign) {
    if (!is(sign)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view sign) {
    if (!take(sign)) not_in_prelude(function_.name, std::string(token().text) + " in place of " + std::string(sign));
  }
  std::string_view name() {
    if (token().kind != Token::Kind::kName)
      not_in_prelude(function_.name, std::string(token().text) + " in place of a name");
    return text_.token(at_++).text;
  }
  bool has_branches() const {
    int depth = 0;
    for (std::size_t i = at_;; ++i) {
      const Token& t = text_.token(i);
      if (t == "if" || t == "for" || t == "while") return true;
      depth += t == "{" ? 1 : t == "}" ? -1 : 0;
      if (depth == 0) return false;
    }
  }
  /// Behind the parenthesis that closes the one which was just taken.
  void skip_parentheses() {
    for (int depth = 1; depth != 0; ++at_) {
      if (token().kind == Token::Kind::kEnd) expect(")");
      depth += is("(") ? 1 : is(")") ? -1 : 0;
    }
  }

  // ---- names ----

  Local& local(std::string_view name) {
    const auto at = locals_.find(name);
    if (at == locals_.end()) not_in_prelude(function_.name, "the name " + std::string(name));
    return at->second;
  }

  void declare(std::string_view name, const CType& type, CValue value) {
    const auto [at, is_new] = locals_.try_emplace(name);
    if (!is_new) not_in_prelude(function_.name, "a second " + std::string(name));
    if (!is_straight_) {
      if (!type.is_number()) not_in_prelude(function_.name, "a struct in a function with branches");
      at->second.pointer = writer_.local(values_.type_id(type));
    }
    at->second.value.type = type;
    if (value.id != 0 || value.is_constant()) assign(at->second, value);
    if (!type.is_number()) at->second.value.members = value.members;
    scope_.push_back(name);
  }

  void assign(Local& to, const CValue& value) {
    if (!to.value.type.is_number()) {
      if (value.type != to.value.type) not_in_prelude(function_.name, "a struct of another type");
      to.value.members = value.members;
      return;
    }
    const CValue converted = values_.convert(value, to.value.type);
    if (is_straight_) {
      to.value = converted;
    } else {
      writer_.store(to.pointer, values_.id(converted), std::max(1u, to.value.type.bits / 8u));
    }
  }

  CValue read(const Local& from) {
    if (is_straight_ || !from.value.type.is_number()) return from.value;
    return values_.of(from.value.type, writer_.load(values_.type_id(from.value.type), from.pointer,
                                                    std::max(1u, from.value.type.bits / 8u)));
  }

  std::size_t member(const CType& type, std::string_view name) {
    const CRecord& record = text_.record(type.record);
    for (std::size_t i = 0; i < record.members.size(); ++i) {
      if (record.members[i].first == name) return i;
    }
    not_in_prelude(function_.name, "the member " + std::string(name));
  }

  void leave_scope(std::size_t size) {
    for (; scope_.size() > size; scope_.pop_back()) locals_.erase(scope_.back());
  }

  // ---- statements ----

  void statement() {
    if (!is_open_) not_in_prelude(function_.name, "a statement behind a return");
    if (take("{")) {
      const std::size_t scope = scope_.size();
      while (!is("}")) statement();
      ++at_;
      return leave_scope(scope);
    }
    if (take(";")) return;
    if (take("return")) return return_statement();
    if (take("if")) return if_statement();
    if (take("for")) return for_statement();
    if (take("while")) return while_statement();
    if (take("__builtin_memcpy")) return copy_statement();
    if (text_.type(token()) != nullptr) {
      declaration();
    } else {
      effects();
    }
    expect(";");
  }

  void return_statement() {
    const CValue value = expression();
    expect(";");
    Id result = 0;
    if (function_.result.is_number()) {
      result = values_.id(values_.convert(value, function_.result));
    } else {
      if (value.type != function_.result) not_in_prelude(function_.name, "a result of another type");
      result = writer_.value(Op::kCompositeConstruct, functions_.type_id(function_.result), Words(value.members));
    }
    writer_.effect(Op::kReturnValue, {result});
    is_open_ = false;
  }

  void if_statement() {
    expect("(");
    const Id condition = values_.truth(expression());
    expect(")");
    const Id then = module_.new_id(), otherwise = module_.new_id(), merge = module_.new_id();
    writer_.effect(Op::kSelectionMerge, {merge, 0});
    writer_.effect(Op::kBranchConditional, {condition, then, otherwise});
    writer_.open_block(then);
    statement();
    const bool then_open = is_open_;
    if (is_open_) writer_.branch(merge);
    is_open_ = true;
    writer_.open_block(otherwise);
    if (take("else")) statement();
    if (is_open_) writer_.branch(merge);
    is_open_ = is_open_ || then_open;
    writer_.open_block(merge);
    if (is_open_) return;
    writer_.effect(Op::kUnreachable, {});
  }

  void for_statement() {
    const std::size_t scope = scope_.size();
    expect("(");
    if (text_.type(token()) != nullptr) {
      declaration();
    } else if (!is(";")) {
      effects();
    }
    expect(";");
    const std::size_t condition = at_;
    while (!is(";")) ++at_;
    const std::size_t step = ++at_;
    skip_parentheses();
    loop(condition, step);
    leave_scope(scope);
  }

  void while_statement() {
    expect("(");
    const std::size_t condition = at_;
    skip_parentheses();
    loop(condition, 0);
  }

  /// The body stands next; condition and step (0: none) were passed by.
  void loop(std::size_t condition, std::size_t step) {
    const Id header = module_.new_id(), test = module_.new_id(), body = module_.new_id(), next = module_.new_id(),
             merge = module_.new_id();
    writer_.branch(header);
    writer_.open_block(header);
    writer_.effect(Op::kLoopMerge, {merge, next, 0});
    writer_.branch(test);
    writer_.open_block(test);
    const std::size_t body_at = at_;
    at_ = condition;
    writer_.effect(Op::kBranchConditional, {values_.truth(expression()), body, merge});
    at_ = body_at;
    writer_.open_block(body);
    statement();
    if (!is_open_) not_in_prelude(function_.name, "a loop that ends in a return");
    writer_.branch(next);
    writer_.open_block(next);
    const std::size_t end = at_;
    if (step != 0) {
      at_ = step;
      if (!is(")")) effects();
      at_ = end;
    }
    writer_.branch(header);
    writer_.open_block(merge);
  }

  /// __builtin_memcpy(&to, &from, n): the bits of one number as those of another.
  void copy_statement() {
    expect("(");
    expect("&");
    Local& to = local(name());
    expect(",");
    expect("&");
    const CValue from = read(local(name()));
    expect(",");
    expression();
    expect(")");
    expect(";");
    if (!is_straight_ || from.type.bits != to.value.type.bits) not_in_prelude(function_.name, "a copy of memory");
    to.value =
        values_.of(to.value.type, writer_.value(Op::kBitcast, values_.type_id(to.value.type), {values_.id(from)}));
  }

  void declaration() {
    const CType type = *text_.type(token());
    ++at_;
    do {
      const std::string_view named = name();
      if (take("=")) {
        const CValue value = expression();
        declare(named, type, type.is_number() ? values_.convert(value, type) : value);
      } else {
        CValue nothing = {.type = type};
        if (type.is_number()) nothing = values_.of(type, module_.null_constant(values_.type_id(type)));
        else nothing.members.resize(text_.record(type.record).members.size());
        declare(named, type, nothing);
      }
    } while (take(","));
  }

  /// Assignments and counting, separated by commas.
  void effects() {
    do {
      const bool counts = is("++") || is("--");
      const std::string_view count = token().text;
      if (counts) ++at_;
      Local& to = local(name());
      if (counts) {
        assign(to, values_.binary(count == "++" ? "+" : "-", read(to), read_number("1")));
      } else if (take(".")) {
        assign_member(to);
      } else if (take("=")) {
        assign(to, expression());
      } else {
        const std::string_view sign = token().text;
        if (sign.size() < 2 || !sign.ends_with('='))
          not_in_prelude(function_.name, "the statement " + std::string(sign));
        ++at_;
        const CValue old = read(to);
        assign(to, values_.binary(sign.substr(0, sign.size() - 1), old, expression()));
      }
    } while (take(","));
  }

  void assign_member(Local& to) {
    const std::size_t i = member(to.value.type, name());
    const CType type = text_.record(to.value.type.record).members[i].second;
    const std::string_view sign = token().text;
    if (sign != "=") not_in_prelude(function_.name, "a member that is changed");
    ++at_;
    to.value.members[i] = values_.id(values_.convert(expression(), type));
  }

  // ---- expressions ----

  CValue expression() {
    const CValue condition = level(0);
    if (!take("?")) return condition;
    const CValue a = expression();
    expect(":");
    const CValue b = expression();
    return values_.choose(condition, a, b);
  }

  CValue level(std::size_t depth) {
    if (depth == std::size(kLevels)) return prefix();
    CValue left = level(depth + 1);
    for (;;) {
      std::string_view found;
      for (const std::string_view sign : kLevels[depth]) {
        if (!sign.empty() && is(sign)) found = sign;
      }
      if (found.empty()) return left;
      ++at_;
      left = values_.binary(found, left, level(depth + 1));
    }
  }

  CValue prefix() {
    for (const std::string_view sign : {"-", "!", "~"}) {
      if (take(sign)) return values_.unary(sign, prefix());
    }
    if (is("(") && text_.type(token(1)) != nullptr) {
      const CType type = *text_.type(token(1));
      at_ += 2;
      expect(")");
      return values_.convert(prefix(), type);
    }
    CValue value = primary();
    while (take(".")) {
      const std::size_t i = member(value.type, name());
      value = values_.of(text_.record(value.type.record).members[i].second, value.members[i]);
    }
    return value;
  }

  CValue primary() {
    if (take("(")) {
      const CValue value = expression();
      expect(")");
      return value;
    }
    if (token().kind == Token::Kind::kNumber) return read_number(text_.token(at_++).text);
    const std::string_view named = name();
    return is("(") ? call(named) : read(local(named));
  }

  CValue call(std::string_view named) {
    expect("(");
    std::vector<CValue> arguments;
    while (!is(")")) {
      if (token().kind == Token::Kind::kText) {
        ++at_;  // of a NaN: no payload
      } else {
        arguments.push_back(expression());
      }
      if (!take(",")) break;
    }
    expect(")");
    if (named.starts_with("__builtin_")) return builtin(named.substr(10), arguments);
    const CFunction* callee = text_.find(named);
    if (callee == nullptr || callee->parameters.size() != arguments.size())
      not_in_prelude(function_.name, "a call of " + std::string(named));
    Words operands = {functions_.get(callee->name)};
    for (std::size_t i = 0; i < arguments.size(); ++i)
      operands.push_back(values_.id(values_.convert(arguments[i], callee->parameters[i].second)));
    const Id result = writer_.value(Op::kFunctionCall, functions_.type_id(callee->result), operands);
    CValue value = values_.of(callee->result, result);
    if (callee->result.is_number()) return value;
    value.id = 0;
    for (std::uint32_t i = 0; const auto& [member, type] : text_.record(callee->result.record).members)
      value.members.push_back(writer_.value(Op::kCompositeExtract, values_.type_id(type), {result, i++}));
    return value;
  }

  CValue builtin(std::string_view named, const std::vector<CValue>& arguments) {
    const bool is_single = named.ends_with('f') && named != "inf";
    const CType type = is_single ? kCFloat : kCDouble;
    const std::string_view base = is_single ? named.substr(0, named.size() - 1) : named;
    if (base == "nan") return {.type = type, .real = __builtin_nan("")};
    if (base == "inf") return {.type = type, .real = __builtin_inf()};
    const auto argument = [&](std::size_t i) { return values_.id(values_.convert(arguments[i], type)); };
    const Id type_of = values_.type_id(type);
    if (base == "fma" && arguments.size() == 3)
      return values_.of(type, writer_.cl_call(ClFunction::kFma, type_of, {argument(0), argument(1), argument(2)}));
    if (base == "sqrt" && arguments.size() == 1)
      return values_.of(type, writer_.cl_call(ClFunction::kSqrt, type_of, {argument(0)}));
    if (base == "floor" && arguments.size() == 1)
      return values_.of(type, writer_.cl_call(ClFunction::kFloor, type_of, {argument(0)}));
    not_in_prelude(function_.name, "a call of __builtin_" + std::string(named));
  }

  const PreludeText& text_;
  SpirvModule& module_;
  PreludeFunctions& functions_;
  const CFunction& function_;
  FunctionWriter writer_;
  CValues values_;
  std::size_t at_;
  std::map<std::string_view, Local> locals_;
  std::vector<std::string_view> scope_;
  bool is_straight_ = true, is_open_ = true;  // open: the block has no end yet
};

}  // namespace

Id PreludeFunctions::type_id(const CType& type) {
  switch (type.kind) {
    case Kind::kBool:
      return module_.bool_type();
    case Kind::kInteger:
      return module_.int_type(type.bits);
    case Kind::kFloat:
      return module_.float_type(type.bits);
    case Kind::kStruct:
      break;
  }
  Words members;
  for (const auto& [name, member] : text_.record(type.record).members) members.push_back(type_id(member));
  return module_.struct_type(members);
}

Id PreludeFunctions::get(std::string_view name) {
  const CFunction* function = text_.find(name);
  if (function == nullptr) not_in_prelude(name, "nothing, it is not there");
  const auto at = written_.find(function->name);
  if (at != written_.end()) return at->second;
  if (depth_ == kDeepest) not_in_prelude(name, "a call of itself");
  ++depth_;
  const Id id = Translator(text_, module_, *this, *function).run();
  --depth_;
  written_.emplace(function->name, id);
  return id;
}

}  // namespace crucible::spirv
