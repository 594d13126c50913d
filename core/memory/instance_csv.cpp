// One walk over the text, a field at a time; ids are compared at the end, by a sort of their hashes.
#include "core/memory/instance_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <functional>
#include <iterator>

namespace crucible::memory {
namespace {

enum class Column : std::size_t {
  kId,
  kLower,
  kUpper,
  kLast,
  kSize,
  kAlignment,
  kSpace,
  kGroup,
  kCarried,
  kPin,
  kGaps
};
constexpr std::size_t kColumns = 11;
constexpr std::size_t kMaxSpaces = 256;

struct Name {
  std::string_view text;
  Column column;
};
constexpr Name kNames[] = {
    {"id", Column::kId},           {"buffer", Column::kId},        {"buffer_id", Column::kId},
    {"lower", Column::kLower},     {"begin", Column::kLower},      {"start", Column::kLower},
    {"upper", Column::kUpper},     {"end", Column::kLast},         {"size", Column::kSize},
    {"align", Column::kAlignment}, {"alignment", Column::kAlignment}, {"space", Column::kSpace},
    {"group", Column::kGroup},     {"carried", Column::kCarried},  {"pinned", Column::kPin},
    {"offset", Column::kPin},      {"gaps", Column::kGaps}};

/// What is shown of a field: short, printable.
std::string shown(std::string_view field) {
  std::string text(field.substr(0, 40));
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return field.size() > 40 ? text + "..." : text;
}

Error bad(std::size_t line, std::string message) {
  return {ErrorCode::kBadInput, fmt::format("line {}: {}", line, message)};
}

/// The next piece of `rest` up to `separator`, which is taken off too.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t at = std::min(rest.find(separator), rest.size());
  const std::string_view piece = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return piece;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Result<Instance> run() {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
    if (rest_.empty()) return bad(1, "the file is empty; it has to begin with a header such as id,lower,upper,size");
    CRUCIBLE_TRY_VOID(read_header());
    const auto lines = static_cast<std::size_t>(std::ranges::count(rest_, '\n')) + 1;
    instance_.problem.buffers.reserve(lines);
    instance_.ids.reserve(lines);
    while (!rest_.empty()) {
      ++line_;
      CRUCIBLE_TRY_VOID(read_line());
    }
    CRUCIBLE_TRY_VOID(compare_ids());
    return std::move(instance_);
  }

 private:
  std::string_view next_line() {
    std::string_view line = take(rest_, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  Result<void> read_header() {
    std::array<bool, kColumns> seen{};
    std::string_view header = next_line();
    const std::string_view whole = header;
    for (bool more = true; more;) {
      more = header.find(',') != std::string_view::npos;
      const std::string_view field = take(header, ',');
      const auto name = std::ranges::find(kNames, field, &Name::text);
      if (name == std::end(kNames)) {
        return bad(1,
                   fmt::format("'{}' is not a column; the first line has to be a header of id, lower, upper, size and "
                               "perhaps alignment, space, group, carried, pinned or offset",
                               shown(field)));
      }
      if (seen[static_cast<std::size_t>(name->column)]) {
        return bad(1, fmt::format("the column '{}' is there twice", shown(field)));
      }
      seen[static_cast<std::size_t>(name->column)] = true;
      columns_.push_back(name->column);
    }
    const auto has = [&](Column column) { return seen[static_cast<std::size_t>(column)]; };
    if (has(Column::kUpper) && has(Column::kLast))
      return bad(1, "has both 'upper' and 'end': one says when a buffer dies");
    if (!has(Column::kId) || !has(Column::kLower) || !has(Column::kSize) ||
        !(has(Column::kUpper) || has(Column::kLast))) {
      return bad(1, fmt::format("the header '{}' lacks one of id, lower, upper, size", shown(whole)));
    }
    instance_.has_alignments = has(Column::kAlignment);
    instance_.has_spaces = has(Column::kSpace);
    instance_.has_groups = has(Column::kGroup);
    instance_.has_carried = has(Column::kCarried);
    return {};
  }

  Result<void> read_line() {
    std::string_view line = next_line();
    if (line.empty()) {
      if (rest_.find_first_not_of("\r\n") == std::string_view::npos) return rest_ = {}, Result<void>{};
      return bad(line_, "is empty, but others follow");
    }
    const auto fields = static_cast<std::size_t>(std::ranges::count(line, ',')) + 1;
    if (fields != columns_.size()) {
      return bad(line_, fmt::format("has {} fields, the header has {}", fields, columns_.size()));
    }
    Buffer buffer;
    for (const Column column : columns_) CRUCIBLE_TRY_VOID(read_field(column, take(line, ','), buffer));
    if (!buffer.carried && buffer.end < buffer.begin) {
      return bad(line_, fmt::format("upper {} is below lower {}", buffer.end, buffer.begin));
    }
    instance_.problem.buffers.push_back(buffer);
    return {};
  }

  Result<void> read_field(Column column, std::string_view field, Buffer& buffer) {
    switch (column) {
      case Column::kId:
        if (field.empty()) return bad(line_, "the id is empty");
        instance_.ids.push_back(field);
        return {};
      case Column::kLower:
        return read(field, "lower", 0xffffffffu, buffer.begin);
      case Column::kUpper:
        return read(field, "upper", 0xffffffffu, buffer.end);
      case Column::kLast:  // inclusive, as in MiniMalloc
        CRUCIBLE_TRY_VOID(read(field, "end", 0xfffffffeu, buffer.end));
        ++buffer.end;
        return {};
      case Column::kSize:
        return read(field, "size", ~std::uint64_t{0}, buffer.size_bytes);
      case Column::kAlignment:
        CRUCIBLE_TRY_VOID(read(field, "alignment", ~std::uint64_t{0}, buffer.alignment));
        if (std::has_single_bit(buffer.alignment)) return {};
        return bad(line_, fmt::format("alignment {} is not a power of two", buffer.alignment));
      case Column::kSpace:
        CRUCIBLE_TRY_VOID(read(field, "space", kMaxSpaces - 1, buffer.space));
        if (buffer.space >= instance_.problem.spaces.size()) instance_.problem.spaces.resize(buffer.space + 1);
        return {};
      case Column::kGroup:
        return field.empty() ? Result<void>() : read(field, "group", kNoGroup - 1, buffer.group);
      case Column::kCarried:
        return read(field, "carried", 1, buffer.carried);
      case Column::kPin:
        return field.empty() ? Result<void>() : read(field, "offset", kUnpinned - 1, buffer.pinned_offset);
      case Column::kGaps:
        if (field.empty()) return {};
        return bad(line_, fmt::format("has the gaps '{}': a life with gaps is written as several lines of one group",
                                      shown(field)));
    }
    return {};
  }

  template <class T>
  Result<void> read(std::string_view field, std::string_view name, std::uint64_t highest, T& out) const {
    std::uint64_t value = 0;
    const char* const end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error == std::errc() && stop == end && value <= highest) return out = static_cast<T>(value), Result<void>();
    const bool is_digits = !field.empty() && field.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_digits)
      return bad(line_, fmt::format("{} {} is above {}, the highest possible", name, shown(field), highest));
    if (field.size() > 1 && field[0] == '-' && field.find_first_not_of("0123456789", 1) == std::string_view::npos) {
      return bad(line_, fmt::format("{} {} is negative", name, shown(field)));
    }
    return bad(line_, fmt::format("{} '{}' is not a whole number", name, shown(field)));
  }

  /// Names the earliest line whose id another line above it has.
  Result<void> compare_ids() const {
    std::vector<std::pair<std::size_t, std::uint32_t>> hashes;
    hashes.reserve(instance_.ids.size());
    for (std::uint32_t i = 0; i < instance_.ids.size(); ++i) {
      hashes.emplace_back(std::hash<std::string_view>()(instance_.ids[i]), i);
    }
    std::ranges::sort(hashes);
    std::size_t first = 0, second = instance_.ids.size();
    for (std::size_t from = 0, i = 1; i < hashes.size(); ++i) {
      if (hashes[i].first != hashes[from].first) from = i;
      if (hashes[i].second >= second) continue;  // of many equal ids the second is enough
      for (std::size_t k = from; k < i && hashes[i].second < second; ++k) {
        if (instance_.ids[hashes[k].second] != instance_.ids[hashes[i].second]) continue;
        first = hashes[k].second;
        second = hashes[i].second;
      }
    }
    if (second == instance_.ids.size()) return {};
    return bad(second + 2,
               fmt::format("the id '{}' was already used in line {}", shown(instance_.ids[second]), first + 2));
  }

  std::string_view rest_;
  std::size_t line_ = 1;
  std::vector<Column> columns_;
  Instance instance_;
};

}  // namespace

Result<Instance> parse_csv(std::string_view text) { return Reader(text).run(); }

std::string to_csv(const Instance& instance, std::span<const std::uint64_t> offsets) {
  std::string text = "id,lower,upper,size";
  if (instance.has_alignments) text += ",alignment";
  if (instance.has_spaces) text += ",space";
  if (instance.has_groups) text += ",group";
  if (instance.has_carried) text += ",carried";
  text += ",offset\n";
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Buffer& buffer = instance.problem.buffers[i];
    fmt::format_to(out, "{},{},{},{}", instance.ids[i], buffer.begin, buffer.end, buffer.size_bytes);
    if (instance.has_alignments) fmt::format_to(out, ",{}", buffer.alignment);
    if (instance.has_spaces) fmt::format_to(out, ",{}", buffer.space);
    if (instance.has_groups) buffer.group == kNoGroup ? text += ',' : (fmt::format_to(out, ",{}", buffer.group), text);
    if (instance.has_carried) fmt::format_to(out, ",{}", buffer.carried ? 1 : 0);
    fmt::format_to(out, ",{}\n", offsets[i]);
  }
  return text;
}

}  // namespace crucible::memory
