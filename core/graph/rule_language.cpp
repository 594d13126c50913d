// Reading and evaluating the notation of op_rules.hpp: see rule_language.hpp.
#include "core/graph/rule_language.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace crucible::graph {
namespace {

using Kind = Step::Kind;

/// Numbers of attributes that conditions name: single ones, and those of both sides ("stride0", "stride1").
struct AttributeName {
  std::string_view name;
  std::int64_t (*get)(const Attributes&);
};
constexpr AttributeName kAttributes[] = {
    {"index", [](const Attributes& a) { return a.index; }},
    {"groups", [](const Attributes& a) { return a.groups; }},
    {"stride0", [](const Attributes& a) { return a.stride[0]; }},
    {"stride1", [](const Attributes& a) { return a.stride[1]; }},
    {"padding0", [](const Attributes& a) { return a.padding[0]; }},
    {"padding1", [](const Attributes& a) { return a.padding[1]; }},
    {"dilation0", [](const Attributes& a) { return a.dilation[0]; }},
    {"dilation1", [](const Attributes& a) { return a.dilation[1]; }},
    {"kernel0", [](const Attributes& a) { return a.kernel[0]; }},
    {"kernel1", [](const Attributes& a) { return a.kernel[1]; }},
};

[[noreturn]] void wrong(std::string_view text, std::string_view why) {
  throw std::logic_error(fmt::format("a rule of ops, '{}': {}", text, why));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The pieces between separators that stand outside of brackets.
std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> list;
  std::size_t from = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '[' || text[i] == '(')) ++depth;
    if (i < text.size() && (text[i] == ']' || text[i] == ')')) --depth;
    if (i < text.size() && (text[i] != separator || depth > 0)) continue;
    if (const std::string_view piece = trimmed(text.substr(from, i - from)); !piece.empty()) list.push_back(piece);
    from = i + 1;
  }
  return list;
}

bool drop_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

/// What stands left and right of the arrow.
std::pair<std::string_view, std::string_view> sides(std::string_view text) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) wrong(text, "has no arrow");
  return {text.substr(0, arrow), text.substr(arrow + 2)};
}

class Reader {
 public:
  explicit Reader(const OpRule& rule) : rule_(rule) {}

  ReadRule read() {
    const auto [operands, results] = sides(rule_.shapes);
    for (const std::string_view piece : pieces(operands, ',')) read_.operands.push_back(shape(piece));
    for (const std::string_view piece : pieces(results, ',')) read_.results.push_back(shape(piece));
    const auto [from, to] = sides(rule_.dtypes);
    for (const std::string_view piece : pieces(from, ',')) read_.operand_dtypes.push_back(dtype(piece));
    for (const std::string_view piece : pieces(to, ',')) read_.result_dtypes.push_back(dtype(piece));
    if (!rule_.dims.empty()) {
      read_.is_one_dim = rule_.dims.starts_with("one of ");
      if (!read_.is_one_dim && !rule_.dims.starts_with("any of ")) wrong(rule_.dims, "one of, or any of?");
      read_.dims_of = known(rule_.dims.substr(7));
    }
    for (const std::string_view list : rule_.where) {
      for (const std::string_view piece : pieces(list, ';')) condition(piece);
    }
    read_.also = rule_.also;
    return std::move(read_);
  }

 private:
  NameId named(std::string_view name) {
    const auto at = std::find(read_.names.begin(), read_.names.end(), name);
    if (at != read_.names.end()) return static_cast<NameId>(at - read_.names.begin());
    if (read_.names.size() == kMostNames) wrong(rule_.shapes, "has too many names");
    read_.names.push_back(name);
    return static_cast<NameId>(read_.names.size() - 1);
  }

  NameId known(std::string_view name) {
    const auto at = std::find(read_.names.begin(), read_.names.end(), name);
    if (at == read_.names.end()) wrong(name, "no shape has this name");
    return static_cast<NameId>(at - read_.names.begin());
  }

  ShapePattern shape(std::string_view text) {
    ShapePattern pattern;
    pattern.repeats = drop_end(text, "...");
    if (text.empty()) {
      pattern.is_tensor = false;  // anything: a check of its own
      return pattern;
    }
    if (text == "number") {
      pattern.is_tensor = false;
      pattern.is_number = true;
      return pattern;
    }
    pattern.is_number = drop_end(text, "?");
    if (!text.starts_with('[') || !drop_end(text, "]")) wrong(text, "is no list of extents");
    for (std::string_view extent : pieces(text.substr(1), ',')) {
      const bool is_kept = drop_end(extent, "/dims");
      if (drop_end(extent, "...")) {
        if (pattern.run) wrong(rule_.shapes, "has two runs in one list");
        pattern.run = named(extent);
        pattern.is_kept = is_kept;
      } else {
        (pattern.run ? pattern.after : pattern.before).push_back(named(extent));
      }
    }
    return pattern;
  }

  static DTypePattern dtype(std::string_view text) {
    DTypePattern pattern;
    pattern.repeats = drop_end(text, "...");
    pattern.may_be_wider = drop_end(text, "+");
    if (text.starts_with("T=")) {
      pattern.is_same = true;
      text.remove_prefix(2);
    } else if (text == "T") {
      pattern.is_same = true;
      return pattern;
    }
    pattern.classes = pieces(text, '|');
    return pattern;
  }

  /// One condition for both sides is two.
  void condition(std::string_view text) {
    std::string_view words;
    if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
      words = trimmed(text.substr(colon + 1));
      text = trimmed(text.substr(0, colon));
    }
    for (side_ = '0'; side_ <= '1'; ++side_) {
      is_of_side_ = false;
      left_ = text;
      written_.clear();
      Condition read;
      read.words = words;
      sum(read.left);
      read.compare = comparison();
      sum(read.right);
      if (!left_.empty()) wrong(text, "goes on where it should end");
      read.text = written_;
      read_.conditions.push_back(std::move(read));
      if (!is_of_side_) return;
    }
  }

  Condition::Compare comparison() {
    using enum Condition::Compare;
    if (take("<=")) return kLessEqual;
    if (take(">=")) return kGreaterEqual;
    if (take("<")) return kLess;
    if (take(">")) return kGreater;
    if (take("=")) return kEqual;
    wrong(left_, "needs a comparison");
  }

  /// Takes the sign if it stands next, and writes it down with the spaces around it.
  bool take(std::string_view sign) {
    if (!trimmed(left_).starts_with(sign)) return false;
    const auto start = static_cast<std::size_t>(trimmed(left_).data() - left_.data());
    const std::string_view rest = left_.substr(start + sign.size());
    written_.append(left_.substr(0, start + sign.size()));
    left_ = rest;
    return true;
  }

  void sum(std::vector<Step>& steps) {
    product(steps);
    while (true) {
      if (take("+")) {
        product(steps);
        steps.push_back({Kind::kAdd});
      } else if (take("-")) {
        product(steps);
        steps.push_back({Kind::kSubtract});
      } else {
        return;
      }
    }
  }

  void product(std::vector<Step>& steps) {
    factor(steps);
    while (true) {
      const Kind kind = take("*")   ? Kind::kMultiply
                        : take("/") ? Kind::kDivide
                        : take("%") ? Kind::kRemainder
                                    : Kind::kNumber;
      if (kind == Kind::kNumber) return;
      factor(steps);
      steps.push_back({kind});
    }
  }

  void factor(std::vector<Step>& steps) {
    if (take("(")) return sum(steps), expect(")");
    if (take("-")) {
      steps.push_back({Kind::kNumber, 0});
      factor(steps);
      steps.push_back({Kind::kSubtract});
      return;
    }
    while (left_.starts_with(' ')) written_.push_back(' '), left_.remove_prefix(1);
    const std::string_view word = left_.substr(0, std::min(left_.size(), left_.find_first_of(" ()+-*/%<>=^,")));
    if (word.empty()) wrong(left_, "needs a number or a name");
    left_.remove_prefix(word.size());
    if (word[0] >= '0' && word[0] <= '9') return number(word, steps);
    if (word == "min" || word == "max") {
      written_.append(word);
      expect("("), sum(steps), expect(","), sum(steps), expect(")");
      steps.push_back({word == "min" ? Kind::kMinimum : Kind::kMaximum});
      return;
    }
    if (word == "all" || word == "along") {
      const std::size_t end = left_.find(')');
      if (!left_.starts_with('(') || end == std::string_view::npos) wrong(left_, "needs a run in parentheses");
      const NameId run = known(left_.substr(1, end - 1));
      written_.append(word).append(left_.substr(0, end + 1));
      left_.remove_prefix(end + 1);
      steps.push_back({word == "all" ? Kind::kAll : Kind::kAlong, run, read_.names[run]});
      return;
    }
    name(word, steps);
  }

  void expect(std::string_view sign) {
    if (!take(sign)) wrong(left_, fmt::format("needs '{}'", sign));
  }

  void number(std::string_view word, std::vector<Step>& steps) {
    std::int64_t value = std::stoll(std::string(word));
    written_.append(word);
    if (left_.starts_with('^')) {
      const std::string_view power =
          left_.substr(1, std::min(left_.size() - 1, left_.find_first_not_of("0123456789", 1) - 1));
      if (value != 2) wrong(left_, "only powers of two are written so");
      value = std::int64_t{1} << std::stoi(std::string(power));
      written_.append("^").append(power);
      left_.remove_prefix(1 + power.size());
    }
    steps.push_back({Kind::kNumber, value});
  }

  void name(std::string_view word, std::vector<Step>& steps) {
    if (add_name(word, steps)) return;
    if (!add_name(std::string(word) + side_, steps)) wrong(word, "is no extent and no number of an attribute");
    is_of_side_ = true;
  }

  bool add_name(std::string_view word, std::vector<Step>& steps) {
    if (const auto at = std::find(read_.names.begin(), read_.names.end(), word); at != read_.names.end()) {
      steps.push_back({Kind::kExtent, at - read_.names.begin(), *at});
    } else if (const auto* found = std::find_if(std::begin(kAttributes), std::end(kAttributes),
                                                [&](const AttributeName& a) { return a.name == word; });
               found != std::end(kAttributes)) {
      steps.push_back({Kind::kAttribute, found - std::begin(kAttributes), found->name});
    } else {
      return false;
    }
    written_.append(word);
    return true;
  }

  const OpRule& rule_;
  ReadRule read_;
  // Of the condition that is being read:
  std::string_view left_;
  std::string written_;
  char side_ = '0';
  bool is_of_side_ = false;
};

/// Product of the extents of a run: all, or those that dims names.
std::optional<Wide> product_of(const Step& step, const Bindings& bindings) {
  const auto run = *bindings.runs[static_cast<std::size_t>(step.number)];
  Wide product = 1;
  for (std::size_t d = 0; d < run.size(); ++d) {
    const auto& dims = bindings.attributes.dims;
    if (step.kind == Kind::kAlong && std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) == dims.end())
      continue;
    if (__builtin_mul_overflow(product, Wide{run[d]}, &product)) return std::nullopt;
  }
  return product;
}

std::optional<Wide> leaf(const Step& step, const Bindings& bindings) {
  switch (step.kind) {
    case Kind::kNumber:
      return step.number;
    case Kind::kExtent:
      return bindings.extents[static_cast<std::size_t>(step.number)];
    case Kind::kAttribute:
      return kAttributes[step.number].get(bindings.attributes);
    default:
      return product_of(step, bindings);
  }
}

std::optional<Wide> joined(Kind kind, Wide a, Wide b) {
  Wide result = 0;
  switch (kind) {
    case Kind::kAdd:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::kDivide:  // rounded down
      return b < 1 ? std::nullopt : std::optional(a / b - (a % b < 0 ? 1 : 0));
    case Kind::kRemainder:
      return b < 1 ? std::nullopt : std::optional(a % b);
    case Kind::kMinimum:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

std::optional<Wide> value_of(const std::vector<Step>& steps, const Bindings& bindings) {
  std::array<Wide, 16> stack = {};
  std::size_t depth = 0;
  for (const Step& step : steps) {
    const bool is_leaf = step.kind < Kind::kAdd;
    const std::optional<Wide> value =
        is_leaf ? leaf(step, bindings) : joined(step.kind, stack[depth - 2], stack[depth - 1]);
    if (!value) return std::nullopt;
    depth = is_leaf ? depth + 1 : depth - 1;
    stack.at(depth - 1) = *value;
  }
  return stack[0];
}

}  // namespace

ReadRule read_rule(const OpRule& rule) { return Reader(rule).read(); }

std::optional<bool> holds(const Condition& condition, const Bindings& bindings) {
  const std::optional<Wide> left = value_of(condition.left, bindings), right = value_of(condition.right, bindings);
  if (!left || !right) return std::nullopt;
  switch (condition.compare) {
    case Condition::Compare::kEqual:
      return *left == *right;
    case Condition::Compare::kLess:
      return *left < *right;
    case Condition::Compare::kLessEqual:
      return *left <= *right;
    case Condition::Compare::kGreater:
      return *left > *right;
    case Condition::Compare::kGreaterEqual:
      return *left >= *right;
  }
  return std::nullopt;
}

std::string numbers_of(const Condition& condition, const Bindings& bindings) {
  std::vector<std::string_view> seen;
  std::string text;
  for (const auto* steps : {&condition.left, &condition.right}) {
    for (const Step& step : *steps) {
      if (step.name.empty() || std::find(seen.begin(), seen.end(), step.name) != seen.end()) continue;
      seen.push_back(step.name);
      text += text.empty() ? "" : ", ";
      if (step.kind == Kind::kAll || step.kind == Kind::kAlong) {
        text += fmt::format("{} is [{}]", step.name,
                            fmt::join(*bindings.runs[static_cast<std::size_t>(step.number)], ", "));
      } else {
        text += fmt::format("{} is {}", step.name, static_cast<std::int64_t>(leaf(step, bindings).value_or(0)));
      }
    }
  }
  return text;
}

bool is_of(DType dtype, const std::vector<std::string_view>& classes) {
  return std::any_of(classes.begin(), classes.end(), [&](std::string_view wanted) {
    if (wanted == "any") return true;
    if (wanted == "number") return dtype != DType::kBool;
    if (wanted == "float") return is_floating(dtype);
    if (wanted == "integer") return is_integral(dtype);
    if (wanted == "id") return dtype == DType::kI64 || dtype == DType::kI32;
    return name(dtype) == wanted;
  });
}

std::string names_of_dtypes(const std::vector<std::string_view>& classes) {
  std::string text;
  for (const std::string_view wanted : classes) {
    text += text.empty() ? "" : " or ";
    text += wanted == "any"       ? "any dtype"
            : wanted == "number"  ? "any dtype but bool"
            : wanted == "float"   ? "a floating-point dtype"
            : wanted == "integer" ? "an integer dtype"
            : wanted == "id"      ? "i64 or i32"
                                  : wanted;
  }
  return text;
}

}  // namespace crucible::graph
