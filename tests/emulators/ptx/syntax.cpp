// Recursive descent over the words. Directives for debuggers (.loc, .file, .section) are passed over; clusters and
// aliases are refused by name, because a kernel that uses them would run wrong.
#include "tests/emulators/ptx/syntax.hpp"

#include <cstdlib>
#include <map>
#include <set>

#include "tests/emulators/ptx/lexer.hpp"

namespace crucible::emulators::ptx {

std::uint64_t size_of_type(std::string_view type, int line) {
  static const std::map<std::string_view, std::uint64_t> kSizes = {
      {"pred", 1},   {"b8", 1},   {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2},
      {"f16", 2},    {"bf16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4}, {"f16x2", 4},
      {"bf16x2", 4}, {"tf32", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}};
  const auto found = kSizes.find(type);
  if (found == kSizes.end()) throw Error(line, "the emulator has no type ." + std::string(type));
  return found->second;
}

std::uint64_t number_bits(std::string_view text, int line) {
  std::string digits(text);
  const bool negative = digits.starts_with('-');
  if (negative) digits.erase(0, 1);
  int base = 0;
  if (digits.size() > 2 && digits[0] == '0' && std::string_view("fFdD").find(digits[1]) != std::string_view::npos) {
    digits.erase(0, 2);
    base = 16;
  } else {
    if (digits.ends_with('U')) digits.pop_back();
    if (digits.starts_with("0b") || digits.starts_with("0B")) digits.erase(0, 2), base = 2;
  }
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(digits.c_str(), &end, base);
  if (digits.empty() || *end != '\0') throw Error(line, "'" + std::string(text) + "' is no number");
  return negative ? 0 - value : value;
}

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokens_of(text)) {}

  Module run() {
    while (now().kind != Token::Kind::kEnd) module_item();
    return std::move(module_);
  }

 private:
  using Kind = Token::Kind;

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_sign(char c) const { return now().kind == Kind::kSign && now().text[0] == c; }
  bool is_dot(std::string_view name) const { return now().kind == Kind::kDot && now().text == name; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  [[noreturn]] void fail(const std::string& wanted) const {
    throw Error(now().line, "expected " + wanted + ", found '" + now().text + "'");
  }
  bool skip_sign(char c) {
    if (!is_sign(c)) return false;
    ++at_;
    return true;
  }
  void want_sign(char c) {
    if (!skip_sign(c)) fail(std::string("'") + c + "'");
  }
  bool skip_dot(std::string_view name) {
    if (!is_dot(name)) return false;
    ++at_;
    return true;
  }
  std::string want_word(const std::string& what) {
    if (now().kind != Kind::kWord) fail(what);
    return take().text;
  }
  std::uint64_t want_count(const std::string& what) {
    if (now().kind != Kind::kNumber) fail(what);
    const int line = now().line;
    return number_bits(take().text, line);
  }
  void skip_line() {
    for (const int line = now().line; now().line == line && now().kind != Kind::kEnd;) ++at_;
  }

  void module_item() {
    const Token token = now();
    if (skip_dot("version")) {
      module_.version = take().text;
      if (now().kind == Kind::kDot) module_.version += "." + take().text;
    } else if (skip_dot("target")) {
      module_.target = want_word("the name of a target");
      while (skip_sign(',')) take();
    } else if (skip_dot("address_size")) {
      if (want_count("64") != 64) throw Error(token.line, "only addresses of 64 bits are translated");
    } else if (is_dot("file") || is_dot("loc")) {
      skip_line();
    } else if (skip_dot("section")) {
      while (!is_sign('}') && now().kind != Kind::kEnd) ++at_;
      want_sign('}');
    } else {
      linked_item();
    }
  }

  void linked_item() {
    bool external = false;
    while (is_dot("visible") || is_dot("extern") || is_dot("weak") || is_dot("common"))
      external |= take().text == "extern";
    const Token token = now();
    if (token.kind != Kind::kDot) fail("a directive");
    if (token.text == "entry" || token.text == "func") return function();
    if (token.text != "global" && token.text != "const" && token.text != "shared") {
      throw Error(token.line, "the emulator does not know the directive ." + token.text);
    }
    for (Variable& variable : variables()) {
      variable.is_external = external;
      module_.variables.push_back(std::move(variable));
    }
    want_sign(';');
  }

  /// From the dot of the space to before the ';' or ')'.
  std::vector<Variable> variables() {
    Variable shared;
    shared.line = now().line;
    shared.space = take().text;
    std::uint64_t elements = 1;
    while (now().kind == Kind::kDot) {
      const std::string word = take().text;
      if (word == "align") {
        const std::uint64_t align = want_count("an alignment");
        if (shared.type.empty()) shared.align = align;  // else that of what a pointer points to
      } else if (word == "v2" || word == "v4") {
        elements = word == "v2" ? 2 : 4;
      } else if (shared.type.empty()) {
        shared.type = word;
        size_of_type(word, shared.line);
      } else if (word != "ptr" && word != "global" && word != "shared" && word != "local" && word != "const" &&
                 word != "unified") {
        throw Error(shared.line, "the emulator does not know ." + word + " in a declaration");
      }
    }
    std::vector<Variable> found;
    do {
      Variable variable = shared;
      variable.count = elements;
      variable.name = want_word("the name of a variable");
      if (skip_sign('<')) {
        variable.count = want_count("how many registers");
        variable.is_range = true;
        want_sign('>');
      }
      while (skip_sign('[')) {
        if (is_sign(']')) {
          variable.is_unsized = true;
        } else {
          variable.count *= want_count("how many elements");
        }
        want_sign(']');
      }
      if (skip_sign('=')) initial(variable);
      if (variable.is_unsized && !variable.initial.empty()) {
        variable.count = variable.initial.size();
        variable.is_unsized = false;
      }
      found.push_back(std::move(variable));
    } while (shared.space != "param" && skip_sign(','));
    return found;
  }

  void initial(Variable& variable) {
    if (skip_sign('{')) {
      while (!skip_sign('}')) {
        initial(variable);
        skip_sign(',');
      }
      return;
    }
    const bool negative = skip_sign('-');
    if (now().kind != Kind::kNumber) {
      throw Error(now().line,
                  "the emulator takes numbers alone as first values; " + variable.name + " has '" + now().text + "'");
    }
    const std::uint64_t value = want_count("a number");
    variable.initial.push_back(negative ? 0 - value : value);
  }

  std::vector<Variable> parameter_list() {
    std::vector<Variable> parameters;
    want_sign('(');
    while (!skip_sign(')')) {
      if (!is_dot("param") && !is_dot("reg")) fail("a parameter");
      for (Variable& variable : variables()) parameters.push_back(std::move(variable));
      skip_sign(',');
    }
    return parameters;
  }

  void function() {
    Function function;
    function.line = now().line;
    function.is_entry = take().text == "entry";
    skip_dot("noreturn");
    if (is_sign('(')) function.results = parameter_list();
    function.name = want_word("the name of a function");
    if (is_sign('(')) function.parameters = parameter_list();
    while (now().kind == Kind::kDot) performance(function);
    if (skip_sign('{')) {
      function.has_body = true;
      body(function.body);
    } else {
      want_sign(';');
    }
    module_.functions.push_back(std::move(function));
  }

  void performance(Function& function) {
    const Token token = take();
    static const std::set<std::string> kIgnored = {"minnctapersm", "maxnreg", "noreturn", "maxnctapersm", "pragma"};
    if (token.text == "maxntid" || token.text == "reqntid") {
      std::array<std::uint64_t, 3> sizes = {1, 1, 1};
      std::size_t i = 0;
      do sizes.at(i++) = want_count("the size of a block");
      while (i < 3 && skip_sign(','));
      (token.text == "maxntid" ? function.max_block : function.required_block) = sizes;
    } else if (kIgnored.contains(token.text)) {
      if (now().kind == Kind::kNumber || now().kind == Kind::kString) take();
      skip_sign(';');
    } else {
      throw Error(token.line, "the emulator does not know ." + token.text + " of " + function.name);
    }
  }

  void body(std::vector<Item>& items) {
    for (int depth = 1; depth > 0;) {
      Item item;
      if (now().kind == Kind::kEnd) fail("'}'");
      if (skip_sign('{')) {
        ++depth;
        item.kind = Item::Kind::kOpen;
        items.push_back(item);
      } else if (skip_sign('}')) {
        if (--depth == 0) return;
        item.kind = Item::Kind::kClose;
        items.push_back(item);
      } else if (now().kind == Kind::kDot) {
        body_directive(items);
      } else if (now().kind == Kind::kWord && ahead().kind == Kind::kSign && ahead().text == ":") {
        item.kind = Item::Kind::kLabel;
        item.label = take().text;
        want_sign(':');
        if (skip_dot("branchtargets")) {
          do item.targets.push_back(want_word("a label"));
          while (skip_sign(','));
          want_sign(';');
        } else if (is_dot("callprototype") || is_dot("calltargets")) {
          throw Error(now().line, "the emulator has no calls through pointers (." + now().text + ")");
        }
        items.push_back(std::move(item));
      } else {
        item.instruction = instruction();
        items.push_back(std::move(item));
      }
    }
  }

  void body_directive(std::vector<Item>& items) {
    const Token token = now();
    if (token.text == "loc" || token.text == "file") return skip_line();
    if (token.text == "pragma") {
      while (!skip_sign(';')) take();
      return;
    }
    static const std::set<std::string> kSpaces = {"reg", "local", "shared", "param", "const", "global"};
    if (!kSpaces.contains(token.text))
      throw Error(token.line, "the emulator does not know the directive ." + token.text);
    for (Variable& variable : variables()) {
      Item item;
      item.kind = Item::Kind::kVariable;
      item.variable = std::move(variable);
      items.push_back(std::move(item));
    }
    want_sign(';');
  }

  Instruction instruction() {
    Instruction found;
    if (skip_sign('@')) {
      found.guard_negated = skip_sign('!');
      found.guard = want_word("a predicate");
    }
    found.line = now().line;
    found.opcode = want_word("an instruction");
    found.modifiers.push_back(found.opcode);
    while (now().kind == Kind::kDot) {
      found.modifiers.push_back(take().text);
      found.opcode += "." + found.modifiers.back();
    }
    while (!skip_sign(';')) {
      found.operands.push_back(operand());
      if (!is_sign(';')) want_sign(',');
    }
    return found;
  }

  Operand operand() {
    Operand found;
    if (is_sign('{') || is_sign('(')) {
      const char close = is_sign('{') ? '}' : ')';
      found.kind = is_sign('{') ? Operand::Kind::kVector : Operand::Kind::kGroup;
      take();
      while (!skip_sign(close)) {
        found.parts.push_back(operand());
        if (!is_sign(close)) want_sign(',');
      }
      return found;
    }
    if (skip_sign('[')) {
      found.kind = Operand::Kind::kAddress;
      if (now().kind != Kind::kWord && now().kind != Kind::kNumber) fail("an address");
      found.text = take().text;
      if (skip_sign('+') || is_sign('-')) {
        const bool negative = skip_sign('-');
        const auto value = static_cast<std::int64_t>(want_count("an offset"));
        found.offset = negative ? -value : value;
      }
      if (is_sign(',')) throw Error(now().line, "the emulator has no textures, surfaces and tensors");
      want_sign(']');
      return found;
    }
    found.negated = skip_sign('!');
    if (is_sign('-') || now().kind == Kind::kNumber) {
      found.kind = Operand::Kind::kNumber;
      const bool negative = skip_sign('-');
      if (now().kind != Kind::kNumber) fail("a number");
      found.text = (negative ? "-" : "") + take().text;
      return found;
    }
    found.text = want_word("an operand");
    while (now().kind == Kind::kDot) found.text += "." + take().text;
    if (skip_sign('|')) found.parts.push_back(operand());
    return found;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  Module module_;
};

}  // namespace

Module parse(std::string_view text) { return Parser(text).run(); }

}  // namespace crucible::emulators::ptx
