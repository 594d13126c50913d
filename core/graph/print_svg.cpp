// A drawing of a program without any other tool: ops in layers by the longest chain before them, each layer ordered by
// where its neighbours stand, edges as curves behind the boxes. See print.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/words.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/print.hpp"

namespace crucible::graph {
namespace {

constexpr int kCharacter = 7, kLine = 15, kPadding = 8, kGap = 18, kLayerGap = 46, kMargin = 20;
constexpr std::string_view kColours[] = {"#dbe9f9", "#fbe3cf", "#dcf1d9"};  // forward, backward, optimizer

struct Node {
  std::vector<std::string> lines;  // of its label
  std::string title;               // shown where the mouse rests
  std::string_view colour = "#ffffff";
  bool outside = false;
  int layer = 0, x = 0, width = 0;
  std::vector<std::size_t> from, to;  // nodes, with repetition where there are several edges
};

class Drawing {
 public:
  Drawing(const Program& program, const ModuleText& what) : program_(program) {
    std::vector<std::size_t> node_of(program.ops.size(), kNothing);
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (!is_shown(program, id, what)) continue;
      node_of[id] = nodes_.size();
      add_op(id);
      for (const Operand& input : program.ops[id].inputs) {
        if (input.is_scalar()) continue;
        const OpId producer = program.values[input.value].producer;
        const bool drawn = producer != kNone && node_of[producer] != kNothing;
        connect(drawn ? node_of[producer] : outside(input.value), node_of[id]);
      }
    }
    place_in_layers();
    for (int round = 0; round < 2; ++round) {
      order(false);
      order(true);
    }
    place();
  }

  std::string svg() const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"monospace\" "
        "font-size=\"12\" text-anchor=\"middle\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<g "
        "fill=\"none\" stroke=\"#888888\">\n",
        width_, height());
    for (const Node& node : nodes_) {
      const int x = node.x + node.width / 2, y = top(node.layer);
      for (const std::size_t i : node.from) {
        const Node& before = nodes_[i];
        const int x0 = before.x + before.width / 2, y0 = top(before.layer) + tall(before);
        const int bend = (y - y0) / 2;
        text += fmt::format("<path d=\"M{} {}C{} {} {} {} {} {}\"/>\n", x0, y0, x0, y0 + bend, x, y - bend, x, y);
      }
    }
    text += "</g>\n";
    for (const Node& node : nodes_) {
      text += fmt::format(
          "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{}\" "
          "stroke=\"#444444\"/>",
          escape_markup(node.title), node.x, top(node.layer), node.width, tall(node), node.outside ? 14 : 2,
          node.colour);
      for (std::size_t i = 0; i < node.lines.size(); ++i) {
        text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", node.x + node.width / 2,
                            top(node.layer) + kLine * static_cast<int>(i + 1) + 1, escape_markup(node.lines[i]));
      }
      text += "</g>\n";
    }
    return text + "</svg>\n";
  }

 private:
  static constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

  void add_op(OpId id) {
    const Op& op = program_.ops[id];
    Node node;
    node.lines = {op_name(program_, op),
                  fmt::format("%{}: {}[{}]", op.outputs[0].value, name(program_.values[op.outputs[0].value].dtype),
                              fmt::join(op.outputs[0].view.sizes, ", "))};
    node.title = op.kind == OpKind::kComposite ? attributes_text(composite_of(program_, op)) : attributes_text(op);
    if (op.source < program_.sources.size()) {
      const Source& source = program_.sources[op.source];
      node.title = fmt::format("{} {} {}{}{}", source.op, source.module, source.site, node.title.empty() ? "" : "\n",
                               node.title);
      node.colour = kColours[static_cast<std::size_t>(source.phase)];
    }
    add(std::move(node));
  }

  std::size_t outside(ValueId id) {
    const auto [found, is_new] = outside_.emplace(id, nodes_.size());
    if (!is_new) return found->second;
    const Value& value = program_.values[id];
    Node node;
    node.outside = true;
    node.title = fmt::format("%{}", id);
    node.lines = {value.name.empty() ? fmt::format("%{}", id) : value.name,
                  fmt::format("{}[{}]", name(value.dtype), value.elements)};
    add(std::move(node));
    return found->second;
  }

  void add(Node node) {
    std::size_t longest = 0;
    for (const std::string& line : node.lines) longest = std::max(longest, line.size());
    node.width = kCharacter * static_cast<int>(longest) + 2 * kPadding;
    nodes_.push_back(std::move(node));
  }

  void connect(std::size_t from, std::size_t to) {
    nodes_[from].to.push_back(to);
    nodes_[to].from.push_back(from);
  }

  /// Ops below all that they read; values from outside just above their first reader.
  void place_in_layers() {
    for (Node& node : nodes_) {  // program order, so that producers come first; outside values have layer 0 till then
      for (const std::size_t i : node.from) node.layer = std::max(node.layer, nodes_[i].layer + 1);
    }
    int layers = 0;
    for (Node& node : nodes_) {
      if (node.outside) {
        int first = nodes_[node.to.front()].layer;
        for (const std::size_t i : node.to) first = std::min(first, nodes_[i].layer);
        node.layer = first - 1;
      }
      layers = std::max(layers, node.layer + 1);
    }
    layers_.resize(static_cast<std::size_t>(layers));
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      auto& layer = layers_[static_cast<std::size_t>(node.layer)];
      node.x = static_cast<int>(layer.size());
      layer.push_back(i);
    }
  }

  /// Each layer by the mean place of its nodes' neighbours above (or below).
  void order(bool by_below) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      auto& layer = layers_[by_below ? layers_.size() - 1 - l : l];
      std::vector<std::pair<double, std::size_t>> wanted;
      for (const std::size_t i : layer) {
        const auto& near = by_below ? nodes_[i].to : nodes_[i].from;
        double sum = 0;
        for (const std::size_t n : near) sum += nodes_[n].x;
        wanted.emplace_back(near.empty() ? nodes_[i].x : sum / static_cast<double>(near.size()), i);
      }
      std::ranges::stable_sort(wanted, {}, [](const auto& entry) { return entry.first; });
      for (std::size_t k = 0; k < layer.size(); ++k) {
        layer[k] = wanted[k].second;
        nodes_[layer[k]].x = static_cast<int>(k);
      }
    }
  }

  void place() {
    std::vector<int> widths;
    for (const auto& layer : layers_) {
      int width = -kGap;
      for (const std::size_t i : layer) width += nodes_[i].width + kGap;
      widths.push_back(width);
      width_ = std::max(width_, width + 2 * kMargin);
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      int x = (width_ - widths[l]) / 2;
      for (const std::size_t i : layers_[l]) {
        nodes_[i].x = x;
        x += nodes_[i].width + kGap;
      }
    }
  }

  static int tall(const Node& node) { return kLine * static_cast<int>(node.lines.size()) + 6; }
  static int top(int layer) { return kMargin + layer * (2 * kLine + 6 + kLayerGap); }
  int height() const {
    return layers_.empty() ? 2 * kMargin : top(static_cast<int>(layers_.size())) - kLayerGap + kMargin;
  }

  const Program& program_;
  std::vector<Node> nodes_;
  std::map<ValueId, std::size_t> outside_;
  std::vector<std::vector<std::size_t>> layers_;
  int width_ = 2 * kMargin;
};

}  // namespace

std::string to_svg(const Program& program, const ModuleText& what) { return Drawing(program, what).svg(); }

}  // namespace crucible::graph
