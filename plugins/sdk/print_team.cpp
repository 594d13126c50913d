// What a team does together, and what one thread does at once: see team_kernel.hpp. It only spells.
#include <algorithm>
#include <string>

#include "plugins/sdk/kernel_printer.hpp"
#include "plugins/sdk/wide_loops.hpp"

namespace crucible::sdk {
namespace {

/// Statements, with all their repetitions, up to which a loop is written out from end to end.
constexpr std::int64_t kShortLoop = 256;

std::string number(std::int64_t value) { return std::to_string(value); }

}  // namespace

/// What the threads of a block share.
std::vector<SharedArray> Printer::shared_arrays() const {
  std::vector<SharedArray> all;
  if (!is_team()) return all;
  for (std::uint32_t i = 0; i < kernel_.arrays.size(); ++i) {
    if (team_.registers.contains(i)) continue;
    all.push_back(
        {memory_type(kernel_.arrays[i].type), "all_a" + text(i), "[" + text(team_.most) + "][" + elements(i) + "]"});
  }
  for (const Type type : team_.joined) {
    if (team_.warps > 1) all.push_back({memory_type(type), exchange(type), "[" + text(team_.warps) + "]"});
  }
  if (dialect_.has_words) all.push_back({"uint64_t", "crucible_words", "[" + text(team_.lanes * team_.most) + "]"});
  return all;
}

/// The lane of this thread, and where its team's arrays lie.
void Printer::print_team(int indent) {
  const std::string lanes = text(team_.lanes), thread(dialect_.thread);
  line(indent, "const int32_t lane = " + thread + " % " + lanes + ";");
  if (declares_shared()) {
    for (const SharedArray& array : shared_arrays())
      line(indent, std::string(dialect_.shared) + array.type + " " + array.name + array.size + ";");
  }
  for (std::uint32_t i = 0; i < kernel_.arrays.size(); ++i) {
    const std::string type = memory_type(kernel_.arrays[i].type), name = "a" + text(i);
    if (const auto own = team_.registers.find(i); own != team_.registers.end()) {
      line(indent, type + " " + name + "[" + text(own->second.elements) + "];");
      continue;
    }
    line(indent, std::string(dialect_.local) + type + "* const " + name + " = all_" + name + "[" + thread + " / " +
                     lanes + "];");
  }
}

/// A number of threads, as a number of teams.
std::string Printer::of_team(std::string_view threads) const {
  return is_team() ? "(" + std::string(threads) + ") / " + text(team_.lanes) : std::string(threads);
}

/// Where the lanes of a team wait for each other. Two in a row are one.
void Printer::meet(int indent) {
  const std::string_view place = team_.warps > 1 ? dialect_.meet_all : dialect_.meet;
  if (!out_.ends_with(std::string(place) + "\n")) line(indent, place);
}

void Printer::print_stmt(const Stmt& stmt, int indent) {
  if (!is_team() || is_dealt_ || stmt.kind == StmtKind::kGrid) return print_plain(stmt, indent);
  const bool meets = team_.meets.contains(&stmt);
  if (meets) meet(indent);
  if (const auto dealt = team_.dealt.find(&stmt); dealt != team_.dealt.end()) {
    is_dealt_ = true;
    print_dealt(stmt, dealt->second, indent);
    is_dealt_ = false;
  } else if (stmt.kind == StmtKind::kStore || stmt.kind == StmtKind::kElement) {
    line(indent, "if (lane == 0) {");
    print_plain(stmt, indent + 1);
    line(indent, "}");
  } else {
    print_plain(stmt, indent);
  }
  if (meets) meet(indent);
}

/// The turns of one loop: the first lane goes on with the old value of what all turns update.
void Printer::print_dealt(const Stmt& stmt, const std::vector<TeamReduction>& reductions, int indent) {
  for (const TeamReduction& reduction : reductions) {
    const Type type = kernel_.variables[reduction.variable].type;
    if (reduction.op != Op::kAdd && reduction.op != Op::kMultiply)
      continue;  // the largest of two equal numbers is that number
    const std::string neutral =
        is_floating(type) ? real(reduction.op == Op::kAdd ? 0 : 1, type) : integer(reduction.op == Op::kAdd ? 0 : 1);
    line(indent, "if (lane != 0) v" + text(reduction.variable) + " = " + neutral + ";");
  }
  const auto wide = team_.wide.find(&stmt);
  const auto turns = indices_.turns(stmt);
  if (wide != team_.wide.end()) {
    print_groups(stmt, wide->second, *turns, indent);
  } else if (turns && (*turns <= team_.lanes || has_registers(stmt.body))) {
    print_turns(stmt, *turns, indent);
  } else {
    const std::string v = "v" + text(stmt.id), begin = expr(stmt.a) + " + lane; ", end = v + " < " + expr(stmt.b);
    line(indent, has_loop(stmt.body) || is_long(stmt.body) ? dialect_.outer_loop : dialect_.inner_loop);
    line(indent, "for (" + variable_type(stmt.id) + " " + v + " = " + begin + end + "; " + v +
                     " += " + text(team_.lanes) + ") {");
    print_block(stmt.body, indent + 1);
    line(indent, "}");
  }
  for (const TeamReduction& reduction : reductions) print_join(reduction, indent);
}

bool Printer::has_registers(const std::vector<Stmt>& body) const {
  const auto reads = [&](const auto& self, std::uint32_t root) -> bool {
    if (root == kNoId) return false;
    const Expr& e = kernel_.exprs[root];
    if (e.operation == Op::kElement && team_.registers.contains(e.id)) return true;
    return std::ranges::any_of(e.in, [&](std::uint32_t in) { return self(self, in); });
  };
  return std::ranges::any_of(body, [&](const Stmt& stmt) {
    return (stmt.kind == StmtKind::kElement && team_.registers.contains(stmt.id)) || reads(reads, stmt.a) ||
           reads(reads, stmt.b) || has_registers(stmt.body);
  });
}

/// Turns that a lane does one by one, written out, so that its elements of arrays are registers.
void Printer::print_turns(const Stmt& stmt, std::int64_t turns, int indent) {
  const std::int64_t lanes = team_.lanes, times = (turns + lanes - 1) / lanes;
  const std::string v = "v" + text(stmt.id);
  int inner = indent + 1;
  if (times == 1) {
    line(indent, "{");
    print_asked(stmt.body, inner);
    line(inner, "const int32_t " + v + " = lane;");
  } else {
    line(indent, dialect_.unrolled_loop);
    line(indent, "for (int32_t t = 0; t < " + number(times) + "; ++t) {");
    line(inner, "const int32_t " + v + " = t * " + number(lanes) + " + lane;");
  }
  if (turns % lanes != 0) line(inner++, "if (" + v + " < " + number(turns) + ") {");
  slot_ = times == 1 ? "0" : "t";
  print_block(stmt.body, inner);
  slot_.clear();
  given_.clear();
  close_to(indent, inner);
}

void Printer::close_to(int indent, int inner) {
  while (inner > indent) line(--inner, "}");
}

/// What turns read of other lanes: asked for before any lane leaves, and before a turn writes what is its own.
int Printer::print_asked(const std::vector<Stmt>& body, int indent, int count) {
  const auto ask = [&](const auto& self, std::uint32_t root) -> void {
    if (root == kNoId) return;
    const Expr& e = kernel_.exprs[root];
    for (const std::uint32_t in : e.in) self(self, in);
    if (e.operation != Op::kElement || !team_.registers.contains(e.id)) return;
    const Expr& index = kernel_.exprs[e.in[0]];
    if (index.operation != Op::kAdd) return;
    const std::string name = "asked" + number(count++), a = "a" + text(e.id);
    line(indent, "const " + memory_type(kernel_.arrays[e.id].type) + " " + name + " = crucible_lane_above(" + a +
                     "[0], lane, " + expr(index.in[1]) + ");");
    given_[root] = name;
  };
  for (const Stmt& stmt : body) {
    for (const std::uint32_t root : {stmt.a, stmt.b}) ask(ask, root);
  }
  return count;
}

/// The lanes' values of one variable become one, halving the distance between lanes, which all get it. Groups that do
/// not run in step go through memory then, each of their lanes in the same order.
void Printer::print_join(const TeamReduction& reduction, int indent) {
  const Type type = kernel_.variables[reduction.variable].type;
  const std::string v = "v" + text(reduction.variable);
  line(indent, dialect_.unrolled_loop);
  const std::string warp = text(team_.lanes / team_.warps), lane = team_.warps > 1 ? "lane % " + warp : "lane";
  line(indent, "for (int32_t width = " + text(team_.lanes / team_.warps / 2) + "; width > 0; width /= 2) {");
  line(indent + 1, "const " + type_name(type) + " other = crucible_lane_xor(" + v + ", " + lane + ", width);");
  line(indent + 1, v + " = " + combined(reduction.op, type, v, "other") + ";");
  line(indent, "}");
  if (team_.warps == 1) return;
  const std::string all = exchange(type);
  line(indent, "if (" + lane + " == 0) " + all + "[lane / " + warp + "] = " + v + ";");
  meet(indent);
  line(indent, v + " = " + all + "[0];");
  line(indent, dialect_.unrolled_loop);
  line(indent, "for (int32_t warp = 1; warp < " + text(team_.warps) + "; ++warp) {");
  line(indent + 1, "const " + type_name(type) + " other = " + all + "[warp];");
  line(indent + 1, v + " = " + combined(reduction.op, type, v, "other") + ";");
  line(indent, "}");
  meet(indent);
}

/// Dealt turns by several: a lane has `width` neighbours, then those of `lanes` groups on.
void Printer::print_groups(const Stmt& stmt, const WideLoop& plan, std::int64_t turns, int indent) {
  const std::int64_t width = plan.width, step = std::int64_t{team_.lanes} * width, at_once = step * plan.steps;
  const std::int64_t times = (turns + at_once - 1) / at_once;
  int inner = indent + 1;
  std::string slot;
  if (times == 1) {
    line(indent, "{");
    line(inner, "const int32_t first = lane * " + number(width) + ";");
  } else {
    const bool is_written_out =
        has_registers(stmt.body) ||
        times * static_cast<std::int64_t>(plan.width * plan.steps * stmt.body.size()) <= kShortLoop;
    line(indent, is_written_out ? dialect_.unrolled_loop : dialect_.outer_loop);
    line(indent, "for (int32_t t = 0; t < " + number(times) + "; ++t) {");
    line(inner, "const int32_t first = t * " + number(at_once) + " + lane * " + number(width) + ";");
    slot = "t * " + number(width * plan.steps) + " + ";
  }
  if (turns % at_once != 0) line(inner++, "if (first < " + number(turns) + ") {");
  print_group(stmt, plan, slot, inner);
  close_to(indent, inner);
}

/// Items by several; by one those of a group that is not whole, and all where a buffer lies elsewhere than the host
/// places it.
void Printer::print_wide_grid(const Stmt& stmt, const WideLoop& plan, int indent) {
  const std::string width = text(plan.width), v = "v" + text(stmt.id), last = "first + " + width;
  std::string addresses;
  const auto add_buffer = [&](std::uint32_t buffer) {
    const std::string address = "(uint64_t)b" + text(buffer);
    if (addresses.find(address + " ") == std::string::npos) addresses += address + " | ";
  };
  for (const auto& [load, elements] : plan.loads) add_buffer(kernel_.exprs[load].id);
  for (const auto& [store, elements] : plan.stores) add_buffer(store->id);
  line(indent, "const bool is_aligned = ((" + addresses + "0) & " + text(kWideBytes - 1) + ") == 0;");
  line(indent, dialect_.outer_loop);
  line(indent, "for (int64_t group = begin / " + width + " + " + std::string(dialect_.first_item) + "; group * " +
                   width + " < end; group += " + std::string(dialect_.item_step) + ") {");
  line(indent + 1, "const int64_t first = group * " + width + ";");
  line(indent + 1, "if (is_aligned && first >= begin && " + last + " <= end) {");
  print_group(stmt, plan, "", indent + 2);
  line(indent + 1, "} else {");
  line(indent + 2, dialect_.outer_loop);
  line(indent + 2, "for (int64_t " + v + " = first < begin ? begin : first; " + v + " < " + last + " && " + v +
                       " < end; ++" + v + ") {");
  print_block(stmt.body, indent + 3);
  line(indent + 2, "}");
  line(indent + 1, "}");
  line(indent, "}");
}

/// Begins the loop over groups in flight, in which the loop's variable is the group's first turn.
int Printer::open_steps(const Stmt& stmt, const WideLoop& plan, int indent) {
  const std::string step = number(std::int64_t{team_.lanes} * plan.width);
  if (plan.steps > 1) {
    line(indent, dialect_.unrolled_loop);
    line(indent++, "for (int32_t f = 0; f < " + text(plan.steps) + "; ++f) {");
  } else {
    line(indent++, "{");
  }
  line(indent, "const " + std::string(is_team() ? "int32_t" : "int64_t") + " v" + text(stmt.id) + " = first" +
                   (plan.steps > 1 ? " + f * " + step : "") + ";");
  return indent;
}

/// Loads, then all turns, then stores.
void Printer::print_group(const Stmt& stmt, const WideLoop& plan, const std::string& slot, int indent) {
  const std::string size = text(plan.width * plan.steps), width = text(plan.width);
  const std::string turn = plan.steps > 1 ? "f * " + width + " + u" : "u";
  const auto part = [&](std::uint32_t from) {
    return (plan.steps > 1 ? " + f * " + width : "") + (from > 0 ? " + " + text(from) : "");
  };
  for (const Stmt& each : stmt.body) {
    if (each.kind == StmtKind::kLet && indices_.definition(each.id) != kNoId) written_out_.insert(each.id);
  }
  std::map<std::string, std::string> loaded;  // by address: where it is
  std::map<std::uint32_t, std::string> given;
  std::vector<std::string> reads, writes;
  for (const auto& [load, elements] : plan.loads) {
    const Expr& e = kernel_.exprs[load];
    const std::string address = "&" + at(e.id, e.in[0]), name = "in" + text(load);
    const auto [known, is_new] = loaded.try_emplace(address, name);
    given[load] = known->second + "[" + turn + "]";
    if (!is_new) continue;
    line(indent, memory_type(kernel_.buffers[e.id].type) + " " + name + "[" + size + "];");
    for (std::uint32_t from = 0; from < plan.width; from += elements) {
      reads.push_back("crucible_read(" + text(elements) + ", " + name + part(from) + ", " + address +
                      (from > 0 ? " + " + text(from) : "") + ");");
    }
  }
  std::map<const Stmt*, std::string> stores;
  for (const Stmt& each : stmt.body) {
    const auto store = plan.stores.find(&each);
    if (store == plan.stores.end()) continue;
    const std::string address = "&" + at(each.id, each.a), name = "out" + text(stores.size());
    stores[&each] = name + "[" + turn + "]";
    line(indent, memory_type(kernel_.buffers[each.id].type) + " " + name + "[" + size + "];");
    for (std::uint32_t from = 0; from < plan.width; from += store->second) {
      writes.push_back("crucible_write(" + text(store->second) + ", " + address + (from > 0 ? " + " + text(from) : "") +
                       ", " + name + part(from) + ");");
    }
  }
  written_out_.clear();
  const auto print_all = [&](const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    const int inner = open_steps(stmt, plan, indent);
    for (const std::string& each : lines) line(inner, each);
    close_to(indent, inner);
  };
  print_all(reads);
  given_ = std::move(given);
  stores_ = std::move(stores);
  slot_ = slot + turn;
  int inner = indent;
  line(inner, dialect_.unrolled_loop);
  if (plan.steps > 1) {
    line(inner++, "for (int32_t f = 0; f < " + text(plan.steps) + "; ++f) {");
    line(inner, dialect_.unrolled_loop);
  }
  line(inner++, "for (int32_t u = 0; u < " + width + "; ++u) {");
  line(inner, "const " + std::string(is_team() ? "int32_t" : "int64_t") + " v" + text(stmt.id) + " = first" +
                  (plan.steps > 1 ? " + f * " + number(std::int64_t{team_.lanes} * plan.width) : "") + " + u;");
  print_block(stmt.body, inner);
  close_to(indent, inner);
  given_.clear();
  stores_.clear();
  slot_.clear();
  print_all(writes);
}

}  // namespace crucible::sdk
