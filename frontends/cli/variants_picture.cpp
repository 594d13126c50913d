// The branches of a recording as a drawing: see variants_text.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/words.hpp"
#include "frontends/cli/variants_text.hpp"

namespace crucible::cli {
namespace {

constexpr int kCharacter = 7, kLine = 15, kPadding = 8, kGap = 14, kColumnGap = 190, kMargin = 20;
constexpr std::size_t kWidest = 40, kMostWays = 32;  // characters of a line; ways of a branch
constexpr std::string_view kBranchColour = "#fbe3cf", kVariantColour = "#dbe9f9";

struct Box {
  std::vector<std::string> lines;
  std::string title;  // shown where the mouse rests
  std::string_view colour;
  std::string way;  // what stands at the line that comes from the box before
  int column = 0, x = 0, y = 0, width = 0;
  std::vector<std::size_t> after;
  int height() const { return kLine * static_cast<int>(lines.size()) + 6; }
};

/// The text in lines of at most kWidest characters, broken between words where it can be.
std::vector<std::string> wrapped(std::string_view text) {
  std::vector<std::string> lines;
  while (text.size() > kWidest) {
    std::size_t end = text.rfind(' ', kWidest);
    if (end == std::string_view::npos || end == 0) end = kWidest;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + (text[end] == ' ' ? 1 : 0));
  }
  lines.emplace_back(text);
  return lines;
}

class Drawing {
 public:
  Drawing(const graph::Variants& variants, const graph::Branches& branches) : variants_(variants), branches_(branches) {
    branches.empty() ? add_variant(0, 0, 0) : add_branch(0, 0, 0);
    int y = kMargin;
    place(0, y);
    height_ = y - kGap + kMargin;
    place_columns();
  }

  std::string svg() const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"monospace\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        width_, height_);
    for (const Box& box : boxes_) {
      for (const std::size_t i : box.after) {
        const Box& next = boxes_[i];
        const int x0 = box.x + box.width, y0 = box.y + box.height() / 2, y1 = next.y + next.height() / 2;
        text += fmt::format("<path d=\"M{} {}C{} {} {} {} {} {}H{}\" fill=\"none\" stroke=\"#888888\"/>\n", x0, y0,
                            x0 + 20, y0, x0 + 20, y1, x0 + 40, y1, next.x);
        text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x0 + 44, y1 - 4,
                            escape_markup(wrapped(next.way)[0].substr(0, (kColumnGap - 50) / kCharacter)));
      }
    }
    for (const Box& box : boxes_) {
      text += fmt::format(
          "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\" "
          "stroke=\"#444444\"/>",
          escape_markup(box.title), box.x, box.y, box.width, box.height(), box.colour);
      for (std::size_t i = 0; i < box.lines.size(); ++i) {
        text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", box.x + kPadding,
                            box.y + kLine * static_cast<int>(i + 1), escape_markup(box.lines[i]));
      }
      text += "</g>\n";
    }
    return text + "</svg>\n";
  }

 private:
  std::size_t add(std::vector<std::string> lines, std::string title, std::string_view colour, int column,
                  std::size_t before) {
    std::size_t longest = 0;
    for (const std::string& line : lines) longest = std::max(longest, line.size());
    Box box;
    box.lines = std::move(lines), box.title = std::move(title), box.colour = colour, box.column = column;
    box.width = kCharacter * static_cast<int>(longest) + 2 * kPadding + static_cast<int>(longest) / 2;
    boxes_.push_back(std::move(box));
    if (boxes_.size() > 1) boxes_[before].after.push_back(boxes_.size() - 1);
    return boxes_.size() - 1;
  }

  void add_variant(std::uint32_t v, int column, std::size_t before) {
    const graph::Program& program = *variants_.programs[v];
    const std::size_t ops = program.ops.size();
    add({fmt::format("variant {}", v),
         fmt::format("{} op{}, ran {}", ops, ops == 1 ? "" : "s", times_in_words(program.iterations))},
        variants_.differences[v], kVariantColour, column, before);
  }

  void add_branch(std::uint32_t number, int column, std::size_t before) {
    const graph::Branch& branch = branches_[number];
    std::vector<std::string> lines = {fmt::format("op {}, {}", branch.op, branch.site)};
    for (std::string& line : wrapped(branch.words)) lines.push_back(std::move(line));
    const std::size_t own = add(std::move(lines), branch_words(branch), kBranchColour, column, before);
    for (std::size_t k = 0; k < std::min(branch.arms.size(), kMostWays); ++k) {
      const graph::Arm& arm = branch.arms[k];
      const std::size_t next = boxes_.size();
      arm.next == graph::kNone ? add_variant(arm.variants[0], column + 1, own) : add_branch(arm.next, column + 1, own);
      boxes_[next].way = arm.when;
    }
    if (branch.arms.size() > kMostWays)
      add({fmt::format("and {} more ways", branch.arms.size() - kMostWays)}, "", "#ffffff", column + 1, own);
  }

  /// Ends one below the other, a branch in the middle of what follows it.
  void place(std::size_t number, int& y) {
    const int begin = y;
    for (const std::size_t next : boxes_[number].after) place(next, y);
    Box& box = boxes_[number];
    y = std::max(y, begin + box.height() + kGap);
    box.y = begin + (y - kGap - begin - box.height()) / 2;
  }

  void place_columns() {
    std::map<int, int> widths;
    for (const Box& box : boxes_) widths[box.column] = std::max(widths[box.column], box.width);
    std::map<int, int> left;
    width_ = kMargin;
    for (const auto& [column, width] : widths) {
      left[column] = width_;
      width_ += width + kColumnGap;
    }
    width_ += kMargin - kColumnGap;
    for (Box& box : boxes_) box.x = left[box.column];
  }

  const graph::Variants& variants_;
  const graph::Branches& branches_;
  std::vector<Box> boxes_;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string variants_svg(const graph::Variants& variants, const graph::Branches& branches) {
  return Drawing(variants, branches).svg();
}

}  // namespace crucible::cli
