// Regions as boxes in boxes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/words.hpp"
#include "core/merkle/print.hpp"

namespace crucible::merkle {
namespace {

constexpr int kCharacter = 7, kLine = 16, kPadding = 8, kGap = 4, kMargin = 16, kLeastWidth = 220;
constexpr std::size_t kMostBoxes = 4000;  // more than that nobody looks at; they say how to see fewer

std::string_view colour(const Region& region) {
  switch (region.kind) {
    case RegionKind::kPhase:
      return region.name == "forward" ? "#e4effb" : region.name == "backward" ? "#fbeee4" : "#e8f6e6";
    case RegionKind::kLoop:
      return "#f3e8fb";
    case RegionKind::kBranch:
      return "#fbe3cf";
    case RegionKind::kModule:
      return "#ffffff";
    default:
      return "#f6f6f6";
  }
}

class Drawing {
 public:
  Drawing(const RegionTree& tree, unsigned levels) : tree_(tree), levels_(levels) {
    const RegionId root = static_cast<RegionId>(tree.regions.size() - 1);
    width_ = width_of(root, 0);
    height_ = draw(root, kMargin, kMargin, width_, 0) + 2 * kMargin;
  }

  std::string svg() const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
               "font-family=\"monospace\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
               width_ + 2 * kMargin, height_) +
           body_ + "</svg>\n";
  }

 private:
  /// What is drawn inside: of a loop what is in its first turn.
  const std::vector<RegionId>& inside(const Region& region) const {
    return region.kind == RegionKind::kLoop ? tree_.regions[region.children.front()].children : region.children;
  }

  bool is_open(const Region& region, unsigned depth) const {
    return !inside(region).empty() && (levels_ == 0 || depth <= levels_ + 1) && boxes_ < kMostBoxes;
  }

  int width_of(RegionId id, unsigned depth) const {
    const Region& region = tree_.regions[id];
    int width = std::max(kLeastWidth, 2 * kPadding + kCharacter * static_cast<int>(words(tree_, id).size()));
    if (!is_open(region, depth)) return width;
    for (const RegionId child : inside(region)) width = std::max(width, width_of(child, depth + 1) + 2 * kPadding);
    return width;
  }

  /// Returns the height of what was drawn.
  int draw(RegionId id, int x, int y, int width, unsigned depth) {
    const Region& region = tree_.regions[id];
    ++boxes_;
    const std::size_t at = body_.size();
    int height = kLine + 4;
    if (is_open(region, depth)) {
      for (const RegionId child : inside(region)) {
        height += kGap + draw(child, x + kPadding, y + height, width - 2 * kPadding, depth + 1);
      }
      height += kGap;
    }
    body_.insert(at, fmt::format("<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" "
                                 "fill=\"{}\" stroke=\"#666666\"{}/><text x=\"{}\" y=\"{}\">{}</text></g>\n",
                                 escape_markup(title(region)), x, y, width, height, colour(region),
                                 region.kind == RegionKind::kLoop ? " stroke-width=\"2\"" : "", x + kPadding,
                                 y + kLine - 2, escape_markup(words(tree_, id))));
    return height;
  }

  static std::string title(const Region& region) {
    return fmt::format("content {}, {} ops, {} operands, {} results", region.content.hex(), region.ops.size(),
                       region.operands.size(), region.results.size());
  }

  const RegionTree& tree_;
  unsigned levels_;
  std::size_t boxes_ = 0;
  std::string body_;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string to_svg(const RegionTree& tree, unsigned levels) { return Drawing(tree, levels).svg(); }

}  // namespace crucible::merkle
