// Finds the row of an instruction: see instructions.hpp. Patterns are read once, at the first call.
#include "tests/emulators/ptx/instructions.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace crucible::emulators::ptx {
namespace {

using Words = std::vector<std::string>;

Words words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  Words found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}

constexpr Row kRows[] = {
#include "tests/emulators/ptx/instruction_table.inc"
};

/// What the words in capitals stand for. The first is what is meant when an optional one is left out.
const std::map<std::string, Words, std::less<>>& classes() {
  static const std::map<std::string, Words, std::less<>> kClasses = [] {
    const std::pair<const char*, const char*> texts[] = {
        {"I", "u16 u32 u64 s16 s32 s64"},
        {"I32", "u32 s32"},
        {"U", "u16 u32 u64"},
        {"S", "s16 s32 s64"},
        {"UW", "u16 u32"},
        {"SW", "s16 s32"},
        {"UF", "u32 u64"},
        {"SF", "s32 s64"},
        {"CT", "u32 s32 b32 u64 s64 b64"},
        {"CU", "u32 u64"},
        {"IA", "u8 u16 u32 u64 s8 s16 s32 s64"},
        {"IB", "u8 u16 u32 u64 s8 s16 s32 s64"},
        {"B", "b16 b32 b64"},
        {"BW", "b32 b64"},
        {"BP", "b16 b32 b64 pred"},
        {"BU", "b16 b32 b64 u16 u32 u64"},
        {"F", "f32 f64"},
        {"FT", "f32 f64 f16 bf16"},
        {"H", "f16 bf16"},
        {"H2", "f16x2 bf16x2"},
        {"H2B", "f16x2 bf16x2"},
        {"RND", "rn rz rm rp"},
        {"BRND", "rn rz"},
        {"TRND", "rna rn"},
        {"IRND", "rni rzi rmi rpi"},
        {"ARITH", "add sub mul"},
        {"MULADD", "fma mad"},
        {"ROOT", "rcp sqrt"},
        {"ROUGH", "approx full"},
        {"CURVE", "ex2 lg2 sin cos tanh"},
        {"CURVEH", "ex2 tanh"},
        {"MINMAX", "min max"},
        {"TESTP", "finite infinite number notanumber normal subnormal"},
        {"DA", "u32 s32"},
        {"DB", "u32 s32"},
        {"SHD", "l r"},
        {"SHM", "wrap clamp"},
        {"CMP", "eq ne lt le gt ge lo ls hi hs"},
        {"CMPF", "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"},
        {"BOOL", "and or xor"},
        {"CT16", "b16 b32 b64 u16 u32 u64 s16 s32 s64"},
        {"SD", "u32 s32"},
        {"ST", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"},
        {"MT", "b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64"},
        {"MOVT", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 bf16 f16x2 bf16x2 pred"},
        {"ORDER", "weak volatile relaxed acquire release mmio"},
        {"SEM", "relaxed acquire release acq_rel"},
        {"SCOPE", "cta cluster gpu sys"},
        {"SS", "global shared shared::cta local const param param::entry param::func"},
        {"AS", "global shared shared::cta"},
        {"SHARED", "shared shared::cta"},
        {"SAME", "global const param param::entry"},
        {"COP", "ca cg cs lu cv wb wt"},
        {"EVICT", "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"},
        {"L2", "L2::64B L2::128B L2::256B"},
        {"CACHE", "L1 L2"},
        {"VEC", "v2 v4 v8"},
        {"AADD", "u32 s32 u64 s64 f32 f64"},
        {"AHALF", "f16 bf16 f16x2 bf16x2"},
        {"AEND", "min max"},
        {"AINT", "u32 s32 u64 s64"},
        {"ABIT", "exch and or xor"},
        {"ABITS", "and or xor"},
        {"ACOUNT", "inc dec"},
        {"LEVEL", "cta gl sys"},
        {"GRIDDEP", "launch_dependents wait"},
        {"SHUFFLE", "up down bfly idx"},
        {"ALLANY", "and or"},
        {"VOTE", "all any uni"},
        {"RSUM", "add min max"},
        {"MA", "s8 u8"},
        {"MB", "s8 u8"},
        {"RINT", "u32 s32"},
    };
    std::map<std::string, Words, std::less<>> made;
    for (const auto& [name, text] : texts) made.emplace(name, words(text));
    return made;
  }();
  return kClasses;
}

struct Part {
  std::string text;
  bool optional = false;
  const Words* choices = nullptr;  // of a class
};

struct Pattern {
  const Row* row = nullptr;
  std::vector<Part> parts;
  Words operands;
};

/// "add{.RND}.f32" as its parts.
Pattern pattern_of(const Row& row) {
  Pattern pattern = {&row, {}, words(row.operands)};
  std::string text;
  bool optional = false;
  const auto finish = [&] {
    if (text.empty()) return;
    const auto found = classes().find(text);
    pattern.parts.push_back({text, optional, found == classes().end() ? nullptr : &found->second});
    text.clear();
  };
  for (const char c : std::string_view(row.pattern)) {
    if (c == '{' || c == '}' || c == '.') finish();
    if (c == '{') optional = true;
    if (c == '}') optional = false;
    if (c != '{' && c != '}' && c != '.') text += c;
  }
  finish();
  return pattern;
}

using Captures = std::map<std::string, std::string, std::less<>>;

bool fits(const Pattern& pattern, std::size_t part, const Words& modifiers, std::size_t modifier, Captures& captures) {
  if (part == pattern.parts.size()) return modifier == modifiers.size();
  const Part& wanted = pattern.parts[part];
  if (modifier < modifiers.size()) {
    const std::string& word = modifiers[modifier];
    const bool same = wanted.choices != nullptr ? std::ranges::find(*wanted.choices, word) != wanted.choices->end()
                                                : word == wanted.text;
    const auto [captured, is_first] = captures.try_emplace(wanted.text, word);
    if (same && captured->second == word && fits(pattern, part + 1, modifiers, modifier + 1, captures)) return true;
    if (is_first) captures.erase(captured);
  }
  return wanted.optional && fits(pattern, part + 1, modifiers, modifier, captures);
}

bool takes_count(const Pattern& pattern, std::size_t count) {
  return pattern.operands.size() == count || (!pattern.operands.empty() && pattern.operands[0] == "*");
}

bool is_type(const std::string& word) {
  try {
    size_of_type(word, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// By the operation, which is the first part or one of its choices.
const std::multimap<std::string, Pattern>& patterns() {
  static const std::multimap<std::string, Pattern> kPatterns = [] {
    std::multimap<std::string, Pattern> made;
    for (const Row& row : kRows) {
      const Pattern pattern = pattern_of(row);
      const Part& first = pattern.parts.front();
      for (const std::string& name : first.choices != nullptr ? *first.choices : Words{first.text})
        made.emplace(name, pattern);
    }
    return made;
  }();
  return kPatterns;
}

}  // namespace

Match match_instruction(const Instruction& instruction) {
  const auto [begin, end] = patterns().equal_range(instruction.modifiers.front());
  const Pattern* wrong_count = nullptr;
  for (auto it = begin; it != end; ++it) {
    const Pattern& pattern = it->second;
    Match match = {pattern.row, {}, pattern.operands, {}};
    if (!fits(pattern, 0, instruction.modifiers, 0, match.classes)) continue;
    if (!takes_count(pattern, instruction.operands.size())) {
      wrong_count = &pattern;
      continue;
    }
    for (const Part& part : pattern.parts) {
      if (part.choices != nullptr && !match.classes.contains(part.text) && !part.choices->empty()) {
        match.classes.emplace(part.text, part.choices->front());
      }
    }
    const auto& modifiers = instruction.modifiers;
    const auto type = std::find_if(modifiers.rbegin(), modifiers.rend(), is_type);
    if (type != modifiers.rend()) match.type = *type;
    return match;
  }
  if (wrong_count != nullptr) {
    throw Error(instruction.line, instruction.opcode + " takes " + std::to_string(wrong_count->operands.size()) +
                                      " operands, not " + std::to_string(instruction.operands.size()));
  }
  throw Error(instruction.line, "the emulator has no instruction " + instruction.opcode +
                                    (begin == end ? "" : " (it has others of that name)"));
}

}  // namespace crucible::emulators::ptx
