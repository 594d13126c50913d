// Cases of passes as files: see pass_cases.hpp.
#include "core/graph/testing/pass_cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/graph/parse.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

constexpr std::string_view kProgram = "crucible program ", kUnchanged = "unchanged";

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view part = list.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    parts.emplace_back(part);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

std::optional<DType> dtype_named(std::string_view wanted) {
  for (int number = 0; number <= static_cast<int>(DType::kF64); ++number) {
    if (name(static_cast<DType>(number)) == wanted) return static_cast<DType>(number);
  }
  return std::nullopt;
}

/// The bytes of numbers. Nothing where one is none.
std::optional<Bytes> bytes_of(DType dtype, const std::vector<std::string>& numbers) {
  Bytes bytes(numbers.size() * size_bytes(dtype));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::byte* const at = bytes.data() + i * size_bytes(dtype);
    char* end = nullptr;
    if (is_floating(dtype)) {
      store_real(dtype, std::strtod(numbers[i].c_str(), &end), at);
    } else {
      store_integer(dtype, std::strtoll(numbers[i].c_str(), &end, 10), at);
    }
    if (numbers[i].empty() || *end != '\0') return std::nullopt;
  }
  return bytes;
}

/// Reads line by line; each function takes what it knows.
class FileReader {
 public:
  FileReader(std::string file, const std::string& text) : file_(std::move(file)) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }

  Result<std::vector<PassCase>> read() {
    std::vector<PassCase> cases;
    while (at_ < lines_.size()) {
      PassCase each;
      each.line = at_ + 1;
      while (at_ < lines_.size() && (lines_[at_].empty() || lines_[at_].starts_with(';')))
        each.comment += lines_[at_++] + "\n";
      if (at_ == lines_.size()) return wrong("a comment without a case");
      CRUCIBLE_TRY(each.name, word("case "));
      CRUCIBLE_TRY(const std::string passes, word("passes "));
      each.passes = split(passes);
      while (at_ < lines_.size() && lines_[at_].starts_with("blob ")) CRUCIBLE_TRY_VOID(read_blob(each));
      CRUCIBLE_TRY_VOID(word("before"));
      CRUCIBLE_TRY(each.before, program());
      if (at_ < lines_.size() && lines_[at_] == kUnchanged) {
        each.after = each.before;
        ++at_;
      } else {
        CRUCIBLE_TRY_VOID(word("after"));
        if (at_ < lines_.size() && lines_[at_].starts_with(kProgram)) {
          CRUCIBLE_TRY(each.after, program());
        }
      }
      cases.push_back(std::move(each));
    }
    return cases;
  }

 private:
  Error wrong(const std::string& what) const {
    return Error{ErrorCode::kBadInput, fmt::format("{}:{}: {}", file_, at_ + 1, what)};
  }

  /// What stands behind the word that the line begins with.
  Result<std::string> word(std::string_view word) {
    if (at_ == lines_.size() || !lines_[at_].starts_with(word)) return wrong(fmt::format("expected '{}'", word));
    return lines_[at_++].substr(word.size());
  }

  Result<void> read_blob(PassCase& each) {
    each.blobs += lines_[at_] + "\n";
    const std::string line = lines_[at_].substr(5);
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == std::string::npos) return wrong("expected 'blob ID DTYPE NUMBERS'");
    const auto dtype = dtype_named(line.substr(first + 1, second - first - 1));
    if (!dtype) return wrong("this is no dtype");
    const auto bytes = bytes_of(*dtype, split(line.substr(second + 1)));
    if (!bytes) return wrong("this is no list of numbers");
    each.stated[static_cast<trace::BlobId>(std::stoul(line.substr(0, first)))] = *bytes;
    ++at_;
    return {};
  }

  Result<std::string> program() {
    if (at_ == lines_.size() || !lines_[at_].starts_with(kProgram)) return wrong("expected a program");
    std::string text;
    const auto ends = [](const std::string& line) {
      return line.empty() || line == "after" || line == kUnchanged || line.starts_with(';') ||
             line.starts_with("case ");
    };
    while (at_ < lines_.size() && !ends(lines_[at_])) text += lines_[at_++] + "\n";
    return text;
  }

  std::string file_;
  std::vector<std::string> lines_;
  std::size_t at_ = 0;
};

/// The stated blobs; others have numbers made of their id, as many as the value that they are of has elements.
class CaseBlobs final : public trace::BlobStore {
 public:
  CaseBlobs(const PassCase& each, const Program& program) : blobs_(each.stated) {
    for (const State& state : program.states) make(state.initial_blob, program.values[state.start]);
    for (const Constant& constant : program.constants) make(constant.blob, program.values[constant.value]);
    for (const Input& input : program.inputs) {
      for (const trace::BlobId blob : input.blobs) make(blob, program.values[input.value]);
    }
  }
  Result<std::vector<std::byte>> load(trace::BlobId id) const override {
    const auto found = blobs_.find(id);
    if (found == blobs_.end()) return Error{ErrorCode::kBadInput, fmt::format("there is no blob {}", id)};
    return found->second;
  }

 private:
  void make(trace::BlobId blob, const Value& value) {
    if (blob == kNone || blobs_.contains(blob)) return;
    Bytes bytes(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype));
    for (std::size_t i = 0; i < static_cast<std::size_t>(value.elements); ++i) {
      const auto number = static_cast<std::int64_t>((i * 7 + blob * 5 + 3) % 16);
      std::byte* const at = bytes.data() + i * size_bytes(value.dtype);
      if (is_floating(value.dtype)) {
        store_real(value.dtype, static_cast<double>(number) / 8 - 1, at);
      } else {
        store_integer(value.dtype, number % 2, at);
      }
    }
    blobs_[blob] = std::move(bytes);
  }

  std::map<trace::BlobId, Bytes> blobs_;
};

Result<Program> read_canonical(const std::string& text) {
  CRUCIBLE_TRY(Program program, parse_program(text));
  if (to_text(program) != text)
    return Error{ErrorCode::kBadInput, "the program before is not as it is printed:\n" + to_text(program)};
  return program;
}

Result<void> run_passes_named(const PassCase& each, Program& program, const trace::BlobStore& blobs) {
  const PassContext context{.blobs = &blobs, .keeps = nullptr};
  if (each.passes == std::vector<std::string>{"all"}) return run_passes(program, context);
  for (const std::string& name : each.passes) {
    const auto found = std::ranges::find(passes(), name, &Pass::name);
    if (found == passes().end()) return Error{ErrorCode::kBadInput, "there is no pass " + name};
    CRUCIBLE_TRY_VOID(found->run(program, context));
    CRUCIBLE_TRY_VOID(verify(program));
  }
  return {};
}

/// What differs between what the two give, "" when nothing does.
Result<std::string> difference_of_results(const Program& before, const Program& after, const trace::BlobStore& blobs) {
  CRUCIBLE_TRY(const ReferenceReplay was, replay_reference(before, blobs, before.iterations));
  CRUCIBLE_TRY(const ReferenceReplay is, replay_reference(after, blobs, after.iterations));
  const auto bits = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::ranges::equal(a, b, {}, std::bit_cast<std::uint64_t, double>, std::bit_cast<std::uint64_t, double>);
  };
  if (!std::ranges::equal(was.outputs, is.outputs, bits)) return std::string("outputs");
  const auto equal = [](const auto& a, const auto& b) { return *a == *b; };
  const auto lists = [&](const auto& a, const auto& b) { return std::ranges::equal(a, b, equal); };
  if (!std::ranges::equal(was.tensors, is.tensors, lists)) return std::string("outputs");
  std::map<std::string, Bytes> ends;
  for (std::size_t s = 0; s < before.states.size(); ++s)
    ends[before.values[before.states[s].start].name] = was.states[s];
  for (std::size_t s = 0; s < after.states.size(); ++s) {
    const std::string& name = after.values[after.states[s].start].name;
    if (ends.at(name) != is.states[s]) return "the state " + name;
  }
  return std::string();
}

}  // namespace

Result<std::vector<PassCase>> read_pass_cases(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) return Error{ErrorCode::kBadInput, "cannot read " + file.string()};
  return FileReader(file.filename().string(), text).read();
}

std::string to_text(const std::vector<PassCase>& cases) {
  std::string text;
  for (const PassCase& each : cases) {
    text += each.comment;
    text += fmt::format("case {}\npasses {}\n{}", each.name, fmt::join(each.passes, ", "), each.blobs);
    text += "before\n" + each.before;
    text += each.after == each.before ? std::string(kUnchanged) + "\n" : "after\n" + each.after;
  }
  return text;
}

Result<std::string> run_pass_case(const PassCase& each) {
  CRUCIBLE_TRY(const Program before, read_canonical(each.before));
  const CaseBlobs blobs(each, before);
  Program after = before;
  CRUCIBLE_TRY_VOID(run_passes_named(each, after, blobs));
  const std::string text = to_text(after);
  Program again = after;
  CRUCIBLE_TRY_VOID(run_passes_named(each, again, blobs));
  if (to_text(again) != text) return Error{ErrorCode::kInternal, "a second run changes it again:\n" + to_text(again)};
  CRUCIBLE_TRY(const std::string difference, difference_of_results(before, after, blobs));
  if (!difference.empty()) return Error{ErrorCode::kInternal, "other bits afterwards: " + difference};
  return text;
}

}  // namespace crucible::graph
