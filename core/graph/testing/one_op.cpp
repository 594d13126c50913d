// See one_op.hpp.
#include "core/graph/testing/one_op.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

/// Programs of one op whose extents, dtypes and attributes come from few numbers, so that what must be equal often is.
class OneOp {
 public:
  OneOp(OpKind kind, const ReadRule& line, std::uint64_t seed) : random_(seed), line_(line), is_empty_(seed % 8 == 7) {
    const OpInfo& row = info(kind);
    op_.kind = kind;
    for (auto& extent : extents_) extent = any();
    for (auto& run : runs_) {
      for (std::uint64_t d = random_() % 3; d > 0; --d) run.push_back(any());
    }
    attributes(row.attributes);
    if (random_() % 2 == 0) solve();
    const std::uint64_t inputs =
        static_cast<std::uint64_t>(row.min_inputs) + (row.max_inputs > row.min_inputs ? random_() % 2 : 0);
    for (std::size_t i = 0; i < inputs; ++i) operand(i);
    for (std::size_t i = 0; i < line_.results.size(); ++i) {
      const auto made = static_cast<ValueId>(program_.values.size());
      const Sizes sizes = sizes_of(line_.results[i]);
      program_.values.push_back(
          {ValueKind::kTemporary, dtype_of(line_.result_dtypes[i]), checked_elements(sizes).value_or(0), "", 0});
      op_.outputs.push_back({made, View::contiguous(sizes), {}});
    }
    program_.iterations = 1;
    program_.ops = {op_};
  }

  const Program& program() const { return program_; }

 private:
  std::int64_t any() {
    constexpr std::int64_t kEmpty[] = {0, 1, 3, std::int64_t{1} << 40};
    if (is_empty_) return kEmpty[random_() % std::size(kEmpty)];
    constexpr std::int64_t kNumbers[] = {1, 1, 2, 2, 2, 3, 4, 6, 0};
    constexpr std::int64_t kEnds[] = {(std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, std::int64_t{1} << 45, -1,
                                      std::int64_t{1} << 14};
    return random_() % 60 == 0 ? kEnds[random_() % std::size(kEnds)] : kNumbers[random_() % std::size(kNumbers)];
  }

  std::int64_t& extent(std::string_view name) {
    const auto at = std::find(line_.names.begin(), line_.names.end(), name);
    return at == line_.names.end() ? unused_ : extents_[static_cast<std::size_t>(at - line_.names.begin())];
  }

  void attributes(std::uint8_t uses) {
    Attributes& a = op_.attributes;
    for (std::size_t d = 0; d < 2; ++d) {
      if (uses & kUsesConvolution)
        a.stride[d] = std::max<std::int64_t>(random_() % 30 == 0 ? 0 : 1, any()), a.dilation[d] = any(),
        a.padding[d] = random_() % 3 == 0 ? any() : 0;
      if (uses & kUsesWindow) a.kernel[d] = any();
    }
    if (uses & kUsesGroups) a.groups = random_() % 2 == 0 ? 1 : any();
    if (uses & kUsesIndex) a.index = random_() % 3 == 0 ? -1 : static_cast<std::int64_t>(random_() % 8) - 2;
    if (uses & kUsesAlpha) a.alpha = random_() % 20 == 0 ? std::numeric_limits<double>::infinity() : 0.5;
    if (!(uses & kUsesDims)) return;
    const auto rank = static_cast<std::int64_t>(runs_[*line_.dims_of].size());
    for (std::int64_t d = 0; d < rank; ++d) {
      if (random_() % 2 == 0) a.dims.push_back(d);
    }
    if (random_() % 10 == 0) a.dims.push_back(any());
  }

  /// Extents that the rules compute from others, so that not all are wrong.
  void solve() {
    extent("c") = extent("g") * op_.attributes.groups % (1 << 20);
    if (op_.attributes.groups > 0 && op_.attributes.groups < 8)
      extent("o") = op_.attributes.groups * (1 + static_cast<std::int64_t>(random_() % 2));
    const bool is_pool = op_.kind == OpKind::kMaxPool2d;
    constexpr const char *kX[] = {"x0", "x1"}, *kK[] = {"k0", "k1"}, *kY[] = {"y0", "y1"};
    for (std::size_t d = 0; d < 2; ++d) {
      const Attributes& a = op_.attributes;
      if (a.stride[d] < 1) continue;
      const Wide window = is_pool ? a.kernel[d] : extent(kK[d]);
      const Wide span = Wide{extent(kX[d])} + 2 * Wide{a.padding[d]} - a.dilation[d] * (window - 1) - 1;
      const Wide count = span < 0 ? 0 : span / a.stride[d] + 1 + (is_pool && random_() % 4 == 0 ? 1 : 0);
      if (count < (1 << 20)) extent(kY[d]) = static_cast<std::int64_t>(count);
    }
    const OpKind kind = op_.kind;
    if (kind == OpKind::kLu || kind == OpKind::kHouseholderQr) extent("k") = std::min(extent("m"), extent("n"));
  }

  Sizes sizes_of(const ShapePattern& pattern) {
    if (!pattern.is_tensor) return runs_[0];
    Sizes sizes;
    for (const NameId name : pattern.before) sizes.push_back(extents_[name]);
    if (pattern.run) {
      for (std::size_t d = 0; d < runs_[*pattern.run].size(); ++d) {
        const auto& dims = op_.attributes.dims;
        const bool is_one =
            pattern.is_kept && std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
        sizes.push_back(is_one ? 1 : runs_[*pattern.run][d]);
      }
    }
    for (const NameId name : pattern.after) sizes.push_back(extents_[name]);
    if (!sizes.empty() && random_() % 25 == 0) sizes[random_() % sizes.size()] = any();
    if (random_() % 60 == 0) sizes.push_back(1);
    return sizes;
  }

  DType dtype_of(const DTypePattern& pattern) {
    if (pattern.is_same && same_ && random_() % 30 != 0)
      return pattern.may_be_wider && random_() % 3 == 0 ? DType::kF32 : *same_;
    DType dtype = DType::kF32;
    for (int tries = 0; tries < 20; ++tries) {
      dtype = static_cast<DType>(random_() % 10);
      if (pattern.classes.empty() || random_() % 100 == 0 || is_of(dtype, pattern.classes)) break;
    }
    if (pattern.is_same && !same_) same_ = dtype;
    return dtype;
  }

  void operand(std::size_t i) {
    const ShapePattern& pattern = line_.operands[std::min(i, line_.operands.size() - 1)];
    const DType dtype = dtype_of(line_.operand_dtypes[std::min(i, line_.operand_dtypes.size() - 1)]);
    const bool is_number = pattern.is_number && (!pattern.is_tensor || random_() % 4 == 0);
    if (random_() % 40 == 0 ? !is_number : is_number) {
      op_.inputs.push_back({kNone, {}, {kNone, true, 0, 2}});
      return;
    }
    const Sizes sizes = sizes_of(pattern);
    const auto value = static_cast<ValueId>(program_.values.size());
    const std::int64_t elements = checked_elements(sizes).value_or(0);
    const bool is_shown = elements > 1000;  // one element, shown as often as the sizes say
    program_.values.push_back({ValueKind::kInput, dtype, is_shown ? 1 : elements, "x", kNone});
    program_.inputs.push_back({value, {0}, false});
    op_.inputs.push_back({value, is_shown ? View{0, sizes, Sizes(sizes.size(), 0)} : View::contiguous(sizes), {}});
    if (op_.kind == OpKind::kUpdate && i == 1) op_.attributes.region = View::contiguous(sizes);
  }

  std::mt19937_64 random_;
  const ReadRule& line_;
  bool is_empty_;
  Op op_;
  Program program_;
  std::array<std::int64_t, kMostNames> extents_ = {};
  std::array<Sizes, kMostNames> runs_;
  std::int64_t unused_ = 0;
  std::optional<DType> same_;
};

}  // namespace

Program one_op(OpKind kind, const ReadRule& line, std::uint64_t seed) { return OneOp(kind, line, seed).program(); }

}  // namespace crucible::graph
