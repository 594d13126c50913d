// Lowering of torchvision's ops on boxes: those that suppress each other, and the samples of an image inside of them.
#include <algorithm>
#include <optional>

#include "core/graph/bounds.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Column `d` of a table, as one of `sizes`.
Expression column(Emitter& e, const Term& table, std::int64_t d, const Sizes& sizes) {
  return e.reshape(slice(table, 1, d, 1), sizes);
}

/// The larger one as C++ compares: the first of two that do not compare.
template <class B>
Expression later_if_larger(const Expression& a, const B& b) {
  return choose(a < b, b, a);
}

/// For each pair of boxes, whether they share more than `threshold` of what they cover together.
Expression overlaps(Emitter& e, const Term& boxes, double threshold) {
  const std::int64_t n = boxes.size(0);
  const auto down = [&](std::int64_t d) { return column(e, boxes, d, {n, 1}); };
  const auto right = [&](std::int64_t d) { return column(e, boxes, d, {1, n}); };
  const auto area = [](const auto& side) { return (side(2) - side(0)) * (side(3) - side(1)); };
  const auto shared = [&](std::int64_t from, std::int64_t to) {
    const Expression begin = later_if_larger(down(from), right(from));
    const Expression end = choose(right(to) < down(to), right(to), down(to));
    const Expression length = end - begin;
    return choose(length > 0, length, 0.0);
  };
  const Expression both = shared(0, 2) * shared(1, 3);
  const Expression share = both / (area(down) + area(right) - both);
  return share.cast(DType::kF64) > Expression(e, e.fill(Term::number(threshold), {}, DType::kF64));
}

/// From the best box on, each one that no better and kept one overlaps. Whether a box is kept follows from the better
/// ones alone, so that each round settles at least one more, and all once a round changes nothing. Few boxes get a
/// round each; of many, chains in which each box decides about the next are as long only where somebody made them so:
/// that the last round changed nothing is expected of the data. How many are kept is what the recording says.
void suppress(OpCall& c) {
  constexpr std::int64_t kLeastRounds = 64, kPairs = 1 << 16;
  Emitter& e = c.emit();
  const Expression boxes = widened(e, c.tensor("dets")), scores = c.tensor("scores");
  const double threshold = c.real("iou_threshold");
  const Sizes& recorded = c.result(0).sizes;
  if (boxes.rank() != 2 || boxes.size(1) != 4 || scores.sizes() != Sizes{boxes.size(0)} || recorded.size() != 1)
    return e.fail("boxes that are no rows of four numbers with a score each");
  const std::int64_t n = boxes.size(0);
  if (n == 0) return c.set(0, e.fill(Term::integer(0), recorded, DType::kI64));
  const Expression order(e, sorted(e, scores, 0, true).index);
  const Expression ranked = e.gather_rows(boxes, order);
  const Expression is_better = e.position(0, {n, n}) < e.position(1, {n, n});
  const Expression beats = e.copy(overlaps(e, ranked, threshold) && is_better);
  Expression kept = e.fill(Term::integer(1), {n}, DType::kBool), before = kept;
  const std::int64_t rounds = std::min(n, std::max(kLeastRounds, kPairs / n));
  for (std::int64_t round = 0; round < rounds; ++round) {
    before = kept;
    const Expression beaten = beats && e.unsqueeze(kept, 1);
    kept = !(e.drop(e.max(e.cast(beaten, DType::kI32), {0}), {0}) != 0);
  }
  if (n > rounds) {
    const Expression open = Expression(e, e.cast(kept != before, DType::kI64)) + graph::kSettled;
    e.expect_in(open, graph::kSettled, graph::kSettled);
  }
  c.set(0, e.take(order, true_coordinates(e, kept, recorded[0]).front()));
}

/// Where along one side of an image the samples of each box lie: [boxes, bins, samples of a bin].
struct Samples {
  Expression low, high;                // i64: the pixels on both sides
  Expression low_share, high_share;    // their weights; 0 where the sample is outside
};

Samples samples(Emitter& e, const Expression& start, const Expression& length, std::int64_t bins, std::int64_t per_bin,
                std::int64_t pixels) {
  const std::int64_t n = start.elements();
  const Sizes sizes = {n, bins, per_bin};
  const Expression bin = e.reshape(length / static_cast<double>(bins), {n, 1, 1});
  const auto number = [&](std::int64_t dim) { return e.position(dim, sizes).cast(start.dtype); };
  const Expression place = e.reshape(start, {n, 1, 1}) + number(1) * bin +
                           (number(2) + 0.5) * bin / static_cast<double>(per_bin);
  const Expression is_inside = place >= -1.0 && place <= static_cast<double>(pixels);
  const Expression held = larger(choose(is_inside, place, 0.0), 0.0);
  const Expression low = e.held_in(e.cast(held.unary(OpKind::kFloor), DType::kI64), 0, pixels - 1);
  const Expression high = smaller(low + 1, pixels - 1);
  const Expression beyond = choose(low >= pixels - 1, 0.0, held - low.cast(start.dtype));
  return {low, high, choose(is_inside, 1.0 - beyond, 0.0), choose(is_inside, beyond, 0.0)};
}

/// What roi_align and its gradient share: the four pixels of each sample and their weights, as tensors of
/// [boxes, channels, bins down, samples, bins across, samples].
struct Grid {
  Sizes sizes;
  std::vector<std::vector<Term>> places;  // of each of the four: image, channel, row, column
  std::vector<Expression> weights;
  double count = 1;

  static constexpr std::int64_t kDown = 3, kAcross = 5;  // the dimensions that a bin's samples stand along
};

std::optional<Grid> grid_of(OpCall& c, const Sizes& image, DType dtype) {
  Emitter& e = c.emit();
  const Expression rois = e.cast(c.tensor("rois"), dtype);
  const std::int64_t ratio = c.integer("sampling_ratio"), down = c.integer("pooled_height"),
                     across = c.integer("pooled_width");
  const double scale = c.real("spatial_scale");
  const bool aligned = c.boolean("aligned");
  if (ratio <= 0) {
    e.fail(
        "how many samples a bin has depends on the boxes where sampling_ratio is not above 0: call it with "
        "sampling_ratio=2, as torchvision's detectors do");
    return std::nullopt;
  }
  if (rois.rank() != 2 || rois.size(1) != 5 || image.size() != 4 || down < 1 || across < 1) {
    e.fail("boxes that are no rows of five numbers, or images without four dimensions");
    return std::nullopt;
  }
  const std::int64_t n = rois.size(0);
  const auto corner = [&](std::int64_t d) { return column(e, rois, d, {n}) * scale - (aligned ? 0.5 : 0.0); };
  const auto length = [&](const Expression& from, const Expression& to) {
    const Expression given = to - from;
    return aligned ? given : choose(given < 1.0, 1.0, given);
  };
  const Expression left = corner(1), top = corner(2);
  const Samples y = samples(e, top, length(top, corner(4)), down, ratio, image[2]);
  const Samples x = samples(e, left, length(left, corner(3)), across, ratio, image[3]);
  Grid grid;
  grid.sizes = {n, image[1], down, ratio, across, ratio};
  grid.count = static_cast<double>(ratio * ratio);
  const auto rows = [&](const Expression& t) { return e.reshape(t, {n, 1, down, ratio, 1, 1}); };
  const auto columns = [&](const Expression& t) { return e.reshape(t, {n, 1, 1, 1, across, ratio}); };
  const Expression batch =
      e.reshape(e.held_in(e.cast(column(e, rois, 0, {n}), DType::kI64), 0, image[0] - 1), {n, 1, 1, 1, 1, 1});
  const Expression channel = e.position(1, grid.sizes);
  for (const bool is_lower : {false, true}) {
    for (const bool is_right : {false, true}) {
      grid.places.push_back({batch, channel, rows(is_lower ? y.high : y.low), columns(is_right ? x.high : x.low)});
      grid.weights.push_back(rows(is_lower ? y.high_share : y.low_share) *
                             columns(is_right ? x.high_share : x.low_share));
    }
  }
  return grid;
}

void roi_align(OpCall& c) {
  Emitter& e = c.emit();
  const Expression image = c.wide("input");
  const auto grid = grid_of(c, image.sizes(), image.dtype);
  if (!grid || !e.failure().empty()) return;
  Expression sum = grid->weights[0] * e.take_at(image, grid->places[0]);
  for (std::size_t i = 1; i < grid->weights.size(); ++i)
    sum = sum + grid->weights[i] * e.take_at(image, grid->places[i]);
  const std::vector<std::int64_t> dims = {Grid::kDown, Grid::kAcross};
  c.set(0, e.drop(e.sum(e.expand(sum, grid->sizes), dims), dims) / grid->count);
}

void roi_align_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression gradient = c.wide("grad");
  const Sizes image = {c.integer("batch_size"), c.integer("channels"), c.integer("height"), c.integer("width")};
  const auto grid = grid_of(c, image, gradient.dtype);
  if (!grid || !e.failure().empty()) return;
  const Sizes& s = grid->sizes;
  if (gradient.sizes() != Sizes{s[0], s[1], s[2], s[4]}) return e.fail("a gradient of other sizes than the samples");
  const Expression share = e.reshape(gradient, {s[0], s[1], s[2], 1, s[4], 1}) / grid->count;
  Expression sum = e.fill(Term::integer(0), image, gradient.dtype);
  for (std::size_t i = 0; i < grid->weights.size(); ++i) {
    const Expression place = e.expand(e.linear_index(image, grid->places[i]), s);
    sum = e.put(OpKind::kPutAdd, sum, place, e.expand(share * grid->weights[i], s));
  }
  c.set(0, sum);
}

constexpr Entry kEntries[] = {
    {"torchvision::nms", suppress},
    {"torchvision::roi_align", roi_align},
    {"torchvision::_roi_align_backward", roi_align_backward},
};

}  // namespace

std::span<const Entry> boxes_entries() { return kEntries; }

}  // namespace crucible::aten
