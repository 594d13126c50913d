// Which registers have to survive a meeting: backward data flow over the statements, to a fixed point.
#include <algorithm>
#include <cstdint>

#include "tests/emulators/ptx/emit.hpp"

namespace crucible::emulators::ptx {
namespace {

/// A set of registers.
class Registers {
 public:
  explicit Registers(std::size_t count) : words_((count + 63) / 64) {}
  void add(int i) { words_[static_cast<std::size_t>(i) / 64] |= 1ull << (i % 64); }
  void remove(int i) { words_[static_cast<std::size_t>(i) / 64] &= ~(1ull << (i % 64)); }
  void add_all(const Registers& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool operator==(const Registers&) const = default;
  std::vector<int> list() const {
    std::vector<int> found;
    for (std::size_t i = 0; i < words_.size() * 64; ++i) {
      if (words_[i / 64] >> (i % 64) & 1) found.push_back(static_cast<int>(i));
    }
    return found;
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// By statement: what lives before it.
std::vector<Registers> live_before(const FunctionCode& code, std::vector<std::vector<int>>& over_meetings) {
  const std::size_t count = code.statements.size(), registers = code.registers.size();
  std::map<int, std::size_t> labels;
  for (std::size_t i = 0; i < count; ++i) {
    if (code.statements[i].label >= 0) labels[code.statements[i].label] = i;
  }
  std::vector<Registers> live(count + 1, Registers(registers));
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = count; i-- > 0;) {
      const Statement& statement = code.statements[i];
      Registers now(registers);
      if (statement.goes_on || !statement.guard.empty()) now.add_all(live[i + 1]);
      for (const int jump : statement.jumps) now.add_all(live[labels.at(jump)]);
      if (statement.guard.empty()) {
        for (const int written : statement.written) now.remove(written);
      }
      // What the text behind the meeting reads is needed there too.
      for (const int read : statement.read) now.add(read);
      if (statement.meeting != nullptr) over_meetings[i] = now.list();
      changed |= !(now == live[i]);
      live[i] = std::move(now);
    }
  }
  return live;
}

}  // namespace

std::vector<std::vector<int>> live_over_meetings(const FunctionCode& code) {
  std::vector<std::vector<int>> found(code.statements.size());
  if (code.meetings != 0) (void)live_before(code, found);
  return found;
}

std::uint32_t most_live(const FunctionCode& code) {
  std::vector<std::vector<int>> unused(code.statements.size());
  std::uint32_t most = 0;
  for (const Registers& live : live_before(code, unused)) {
    std::uint32_t words = 0;
    for (const int r : live.list()) {
      const std::string& type = code.registers[static_cast<std::size_t>(r)];
      words += type == "u64" ? 2 : type == "u8" ? 0 : 1;  // predicates have registers of their own
    }
    most = std::max(most, words);
  }
  return most;
}

}  // namespace crucible::emulators::ptx
