// Classification of what crosses the edge of an iteration: see boundary.hpp.
#include "frontends/aten/recording/boundary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/base/words.hpp"
#include "core/trace/text.hpp"
#include "frontends/aten/recording/cells.hpp"

namespace crucible::aten {
namespace {

using trace::Role;
using trace::StorageId;

Error bad(std::string message) { return Error{ErrorCode::kBadInput, std::move(message)}; }

class Classifier {
 public:
  Classifier(const trace::Trace& trace, const std::vector<LoweredGroup>& groups)
      : trace_(trace), groups_(groups), history_(trace, groups) {
    for (const trace::FinalState& state : trace.final_states) final_states_.emplace(state.storage, &state);
  }

  Result<std::vector<graph::Turn>> run() {
    std::vector<std::size_t> carried;
    for (std::size_t index = 0; index < history_.reads().size(); ++index) {
      CRUCIBLE_TRY(const bool is_carried, classify(history_.reads()[index]));
      if (is_carried) carried.push_back(index);
    }
    std::size_t failed = 0;
    Result<std::vector<Cell>> cells = make_cells(trace_, history_, groups_, carried, failed);
    if (!cells) {
      return bad(fmt::format("{} is read by a later iteration, but what it held was neither recorded nor left by an "
                             "op; record with a larger --warmup",
                             describe(history_.reads()[failed])));
    }
    CRUCIBLE_TRY_VOID(add_states(*cells));
    separate_ends();
    return turns(*cells);
  }

 private:
  graph::Program& program(std::uint32_t group) const { return groups_[group].emitter.program(); }
  const StorageMap::Entry& entry_of(const StorageRole& role) const {
    return *groups_[role.group].storages.find(role.storage);
  }

  const trace::External* external_of(const OutsideRead& read) const {
    return history_.first_bytes(read.uses.front().own);
  }

  std::string describe(const OutsideRead& read) const {
    const trace::External* external = external_of(read);
    if (external && !external->name.empty()) return printable(external->name);
    for (const auto index : groups_[read.role.group].alignment.ops[0]) {
      const trace::Op& op = trace_.ops[index];
      for (const auto id : tensors_in(op.args)) {
        if (trace_.tensors[id].storage != read.role.storage) continue;
        return fmt::format("the tensor first read by {} at {}", trace_.schemas[op.schema].full_name(),
                           trace_.site_text(op.site));
      }
    }
    return fmt::format("storage {}", read.role.storage);
  }

  bool is_lasting(const OutsideRead& read) const {
    const trace::External* external = external_of(read);
    const bool has_role = external && (external->role == Role::kParameter || external->role == Role::kBuffer ||
                                       external->role == Role::kOptimizerState);
    return has_role ||
           std::ranges::any_of(read.uses, [&](const OutsideUse& use) { return final_states_.contains(use.own); });
  }

  /// Whether what is read becomes a state; else an input or a constant is made of it.
  Result<bool> classify(const OutsideRead& read) {
    const StorageMap::Entry& entry = entry_of(read.role);
    bool is_always_given = true, is_ever_written = false;
    for (const OutsideUse& use : read.uses) {
      if (use.given == trace::kNone && !use.left_by) {
        return bad(fmt::format("the bytes of {} are not in the recording although an op reads them", describe(read)));
      }
      if (!has_size(entry, use.given)) return wrong_size(describe(read), entry, use.given);
      is_always_given = is_always_given && use.given != trace::kNone;
      is_ever_written = is_ever_written || history_.is_written(use.own);
    }
    const trace::External* external = external_of(read);
    graph::Value& value = program(read.role.group).values[entry.outside];
    if (external) value.name = printable(external->name);
    const bool lasting = is_lasting(read);
    if (history_.turns().size() == 1) {
      if (lasting || entry.written) return true;
      add_outside(read, &OutsideUse::given, external->role == Role::kInput);
      return false;
    }
    const bool is_known =
        std::ranges::none_of(read.uses, [](const OutsideUse& use) { return use.known == trace::kNone; });
    if (!is_ever_written && !lasting && is_known) {  // what an op first read is what is there
      const bool is_of_one = read.uses.size() == 1 && groups_.size() > 1 && is_always_given;
      add_outside(read, &OutsideUse::known, is_of_one);
      return false;
    }
    const bool is_first = read.uses.size() == 1;
    if (!is_always_given || (lasting && (is_first || groups_.size() > 1))) return true;
    add_outside(read, &OutsideUse::given, entry.written);
    return false;
  }

  /// An input, or a constant where all iterations read the same bytes.
  void add_outside(const OutsideRead& read, trace::BlobId OutsideUse::* blob, bool is_input) {
    const graph::ValueId value = entry_of(read.role).outside;
    graph::Program& program = this->program(read.role.group);
    std::vector<trace::BlobId> blobs;
    for (const OutsideUse& use : read.uses) blobs.push_back(use.*blob);
    const bool same = std::ranges::all_of(blobs, [&](const auto b) { return same_blob(b, blobs[0]); });
    if (same && !is_input) {
      program.values[value].kind = graph::ValueKind::kConstant;
      program.constants.push_back({value, blobs[0]});
    } else {
      program.values[value].kind = graph::ValueKind::kInput;
      program.inputs.push_back({value, std::move(blobs), false});
    }
  }

  bool same_blob(trace::BlobId a, trace::BlobId b) const {
    if (a == b) return true;
    return a < trace_.blobs.size() && b < trace_.blobs.size() && trace_.blobs[a].hash == trace_.blobs[b].hash;
  }

  bool has_size(const StorageMap::Entry& entry, trace::BlobId blob) const {
    return blob >= trace_.blobs.size() || trace_.blobs[blob].size_bytes == bytes_of(entry);
  }
  static std::uint64_t bytes_of(const StorageMap::Entry& entry) {
    return static_cast<std::uint64_t>(entry.elements) * size_bytes(entry.dtype);
  }
  Error wrong_size(const std::string& what, const StorageMap::Entry& entry, trace::BlobId blob) const {
    return bad(fmt::format("{} needs {} bytes but the recording holds {}", what, bytes_of(entry),
                           trace_.blobs[blob].size_bytes));
  }

  Result<void> add_states(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      const StorageRole role = role_of(cell);
      const std::string name = name_of(cell);
      const std::string what =
          !name.empty() || cell.reads.empty() ? name : describe(history_.reads()[cell.reads.begin()->second]);
      for (const trace::BlobId blob : {cell.initial, cell.final}) {
        if (!has_size(entry_of(role), blob)) return wrong_size(what, entry_of(role), blob);
      }
      for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        CRUCIBLE_TRY(const graph::State state, state_of(cell, g, entry_of(role), what));
        program(g).values[state.start].kind = graph::ValueKind::kState;
        program(g).values[state.start].name = name;
        program(g).states.push_back(state);
      }
    }
    return {};
  }

  /// A part that has the cell's size.
  StorageRole role_of(const Cell& cell) const {
    if (!cell.reads.empty()) return history_.reads()[cell.reads.begin()->second].role;
    return cell.left.empty() ? cell.typed : StorageRole{cell.left.begin()->first, cell.left.begin()->second};
  }

  std::string name_of(const Cell& cell) const {
    const auto last = final_states_.find(cell.final_storage);
    const bool is_named_last = last != final_states_.end() && !last->second->name.empty();
    // A place of several tensors is called after the one that is compared.
    const auto is_copy = [](const GivenBytes& given) { return given.from.has_value(); };
    if (is_named_last && std::ranges::any_of(cell.given, is_copy)) return printable(last->second->name);
    for (const auto& [group, index] : cell.reads) {
      const std::string& name = program(group).values[entry_of(history_.reads()[index].role).outside].name;
      if (!name.empty()) return name;
    }
    const trace::External* first = history_.first_bytes(cell.final_storage);
    if (cell.reads.empty() && first != nullptr && !first->name.empty()) return printable(first->name);
    return is_named_last ? printable(last->second->name) : place_text(cell);
  }

  /// Where a person finds a tensor that has no name: the op that makes it, else the first one that writes or reads it.
  std::string place_text(const Cell& cell) const {
    StorageRole role = role_of(cell);
    if (!cell.left.empty()) role = {cell.left.begin()->first, cell.left.begin()->second};
    const auto has = [&](const std::vector<trace::Arg>& args) {
      return std::ranges::any_of(tensors_in(args), [&](auto id) { return trace_.tensors[id].storage == role.storage; });
    };
    const std::vector<std::uint32_t>& ops = groups_[role.group].alignment.ops[0];
    const auto result = std::ranges::find_if(ops, [&](auto op) { return has(trace_.ops[op].outputs); });
    const auto touched = std::ranges::find_if(ops, [&](auto op) { return has(trace_.ops[op].args); });
    const auto first = result != ops.end() && entry_of(role).written ? result : touched;
    if (first == ops.end()) return "";
    const trace::Op& op = trace_.ops[*first];
    const char* what = first != result || !entry_of(role).written ? "first used" : has(op.args) ? "written" : "made";
    return fmt::format("tensor {} by {} at {}", what, printable(trace_.schemas[op.schema].full_name()),
                       trace_.site_text(op.site));
  }

  /// The cell in one group, which may not touch it.
  Result<graph::State> state_of(const Cell& cell, std::uint32_t g, const StorageMap::Entry& typed,
                                const std::string& name) {
    graph::State state{graph::kNone, graph::kNone, cell.initial, cell.final};
    DType dtype = typed.dtype;
    if (const auto read = cell.reads.find(g); read != cell.reads.end()) {
      const StorageMap::Entry& entry = entry_of(history_.reads()[read->second].role);
      state.start = entry.outside;
      dtype = entry.dtype;
      if (entry.elements_as(DType::kU8) != typed.elements_as(DType::kU8)) return bad(of_unknown_value(name));
    } else {
      state.start = groups_[g].emitter.outside_value(graph::ValueKind::kState, typed.dtype, typed.elements, "");
    }
    state.end = state.start;
    const auto left = cell.left.find(g);
    if (left == cell.left.end()) return state;
    const StorageMap::Entry* end = groups_[g].storages.find(left->second);
    const bool fits =
        end && end->value != graph::kNone && end->elements_as(DType::kU8) == typed.elements_as(DType::kU8);
    if (!fits) return bad(of_unknown_value(name));
    if (end->value != state.start) state.end = groups_[g].storages.whole(left->second, dtype).operand.value;
    return state;
  }

  static std::string of_unknown_value(const std::string& name) {
    return fmt::format("{} takes over a tensor of the iteration before whose value is not known", name);
  }

  /// Every end becomes a temporary of its own, so that states can live in separate buffers.
  void separate_ends() {
    for (const LoweredGroup& group : groups_) {
      graph::Program& program = group.emitter.program();
      std::set<graph::ValueId> ends;
      group.emitter.set_source(graph::kNone);
      for (graph::State& state : program.states) {
        if (state.end == state.start) continue;
        const bool temporary = program.values[state.end].kind == graph::ValueKind::kTemporary;
        if (temporary && ends.insert(state.end).second) continue;
        Term whole;
        whole.operand.value = state.end;
        whole.dtype = program.values[state.end].dtype;
        whole.operand.view = graph::View::contiguous({program.values[state.end].elements});
        state.end = group.emitter.copy(whole).operand.value;
        ends.insert(state.end);
      }
    }
  }

  std::vector<graph::Turn> turns(const std::vector<Cell>& cells) const {
    std::vector<graph::Turn> turns;
    for (const RecordedTurn& turn : history_.turns())
      turns.push_back({.variant = turn.group, .index = turn.member, .iteration = turn.iteration, .given = {}});
    for (std::uint32_t c = 0; c < cells.size(); ++c) {
      for (const GivenBytes& given : cells[c].given) {
        const auto from = given.from ? static_cast<std::uint32_t>(*given.from) : graph::kNone;
        turns[given.turn].given.push_back({c, given.blob, given.is_seam, from});
      }
    }
    return turns;
  }

  const trace::Trace& trace_;
  const std::vector<LoweredGroup>& groups_;
  RecordedHistory history_;
  std::unordered_map<StorageId, const trace::FinalState*> final_states_;
};

}  // namespace

void Losses::read_present(StorageMap& storages) {
  const auto& losses = trace_.iterations[alignment_.iterations[0]].losses;
  terms_.resize(losses.size());
  for (std::size_t k = 0; k < losses.size(); ++k) {
    const auto* entry = storages.find(trace_.tensors[losses[k].tensor].storage);
    if (terms_[k].is_number() && entry && entry->value != graph::kNone) terms_[k] = storages.read(losses[k].tensor);
  }
}

Result<void> Losses::finish(StorageMap& storages, graph::Program& program) {
  read_present(storages);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    graph::Output output{k == 0 ? "loss" : fmt::format("loss {}", k + 1), terms_[k].operand, {}};
    for (std::size_t i = 0; i < alignment_.count(); ++i) {
      const auto& losses = trace_.iterations[alignment_.iterations[i]].losses;
      output.recorded.push_back(losses[k].value);
    }
    if (terms_[k].is_number()) return bad(fmt::format("{} is not a result of the recorded ops", output.name));
    if (terms_[k].elements() == 1) program.outputs.push_back(std::move(output));
  }
  return {};
}

Result<std::vector<graph::Turn>> classify(const trace::Trace& trace, const std::vector<LoweredGroup>& groups) {
  return Classifier(trace, groups).run();
}

}  // namespace crucible::aten
