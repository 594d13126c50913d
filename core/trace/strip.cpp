// The copy is filled field by field from nothing: a field that a later version adds is not in it until somebody has
// thought about it here.
#include "core/trace/strip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/trace/reservations.hpp"
#include "core/trace/stand_in_bytes.hpp"
#include "core/trace/strip_words.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

/// Of what a blob is made, in the copy.
struct Source {
  BlobId original = kNone;
  DType dtype = DType::kU8;
  bool is_number = false;  // which stays as it is
  StandInUse use = {};
  auto operator<=>(const Source& other) const {
    return std::tuple(original, dtype, is_number, use.keeps_order, use.is_compared_only) <=>
           std::tuple(other.original, other.dtype, other.is_number, other.use.keeps_order, other.use.is_compared_only);
  }
  bool operator==(const Source& other) const { return (*this <=> other) == 0; }
};

/// Makes the noise anew whenever it is asked for, so that no copy of all weights has to fit into memory.
class NoiseStore final : public BlobStore {
 public:
  NoiseStore(std::shared_ptr<const BlobStore> originals, ContentHash key)
      : originals_(std::move(originals)), key_(key) {}
  BlobId add(const Source& source) {
    sources_.push_back(source);
    return static_cast<BlobId>(sources_.size() - 1);
  }
  Result<std::vector<std::byte>> load(BlobId id) const override {
    if (id >= sources_.size() || originals_ == nullptr)
      return Error{ErrorCode::kBadInput, fmt::format("there is no blob {}", id)};
    const Source& source = sources_[id];
    CRUCIBLE_TRY(std::vector<std::byte> content, originals_->load(source.original));
    if (source.is_number) return content;
    return stand_in(content, source.dtype, source.use,
                    keyed(key_, fmt::format("blob {} {}", sha256(content).hex(), name(source.dtype))));
  }

 private:
  std::shared_ptr<const BlobStore> originals_;  // shared: with the trace that is stripped
  const ContentHash key_;
  std::vector<Source> sources_;
};

/// What the ops say of storages: which types they are read as, and what for.
struct StorageUse {
  DType dtype = DType::kOther;
  bool is_used = false, is_number = true, keeps_order = false;
};

bool is_offset(std::string_view argument) {
  constexpr std::array kWords = {"offset", "crow", "ccol", "compressed", "cu_seq", "batch_sizes", "lengths", "seqlens"};
  return std::ranges::any_of(kWords,
                             [&](std::string_view word) { return argument.find(word) != std::string_view::npos; });
}

template <class Visit>
void visit_tensors(const Arg& arg, Visit visit) {
  if (arg.kind == Arg::Kind::kTensor) visit(arg.tensor);
  for (const Arg& element : arg.list) visit_tensors(element, visit);
}

class Stripping {
 public:
  Stripping(const Trace& trace, const ContentHash& key)
      : from_(trace),
        key_(key),
        words_(key),
        store_(std::make_shared<NoiseStore>(trace.blob_store, key)),
        uses_(trace.storages.size()) {}

  Result<Stripped> run() {
    learn_uses();
    copy_metadata();
    copy_tables();
    copy_ops();
    copy_iterations();
    copy_externals_and_draws();
    copy_ends();  // after what ops read: equal bytes stay equal
    CRUCIBLE_TRY_VOID(hash_blobs());
    made_.trace.blob_store = store_;
    made_.names = words_.count();
    return std::move(made_);
  }

 private:
  void learn_uses() {
    for (const Tensor& tensor : from_.tensors) {
      if (tensor.storage == kNone) continue;
      StorageUse& use = uses_[tensor.storage];
      if (!use.is_used) use.dtype = tensor.dtype;
      use.is_used = true;
      use.is_number = use.is_number && tensor.is_wrapped_number;
    }
    const auto keep_order = [this](TensorId id) {
      if (from_.tensors[id].storage != kNone) uses_[from_.tensors[id].storage].keeps_order = true;
    };
    for (const Op& op : from_.ops) {
      const std::vector<std::string> names = argument_names(from_.schemas[op.schema].text);
      for (std::size_t i = 0; i < op.args.size() && i < names.size(); ++i) {
        if (is_offset(names[i])) visit_tensors(op.args[i], keep_order);
      }
    }
    for (const CompoundTensor& compound : from_.compounds) {
      for (const auto& [part, value] : compound.parts) {
        if (is_offset(part)) visit_tensors(value, keep_order);
      }
    }
  }

  void copy_metadata() {
    const Metadata& from = from_.metadata;
    Metadata& to = made_.trace.metadata;
    to.framework = words_.framework(from.framework);
    to.frontend = words_.frontend(from.frontend);
    to.device = words_.device(from.device);
    to.incomplete_reason = from.incomplete_reason.empty() ? "" : "iterations are missing; why was stripped";
    to.warmup_iterations = from.warmup_iterations;
    to.overhead_ns_per_op = from.overhead_ns_per_op;
    to.precision = from.precision;  // the framework's words alone
    to.rank = from.rank;
    to.world_size = from.world_size;
  }

  void copy_tables() {
    Trace& to = made_.trace;
    for (const Schema& schema : from_.schemas) to.schemas.push_back({schema.name, schema.overload, schema.text});
    for (const Site& site : from_.sites)
      to.sites.push_back({words_.file(site.file), site.line, words_.dotted(site.function)});
    for (const std::string& module : from_.modules) to.modules.push_back(words_.dotted(module));
    for (const Storage& storage : from_.storages)
      to.storages.push_back({storage.size_bytes, words_.device(storage.device)});
    for (const Tensor& tensor : from_.tensors) {
      to.tensors.push_back({tensor.storage, tensor.dtype, tensor.requires_grad, tensor.is_wrapped_number, tensor.offset,
                            tensor.sizes, tensor.strides});
    }
    for (const CompoundTensor& compound : from_.compounds) {
      CompoundTensor copy{compound.tensor, words_.compound(compound.kind), {}};
      for (const auto& [part, value] : compound.parts)
        copy.parts.emplace_back(words_.compound(part), argument(value, false));
      to.compounds.push_back(std::move(copy));
    }
    for (const NotRecorded& item : from_.not_recorded) {
      if (item.what != kStripped) to.not_recorded.push_back({words_.not_recorded(item.what), item.count, item.site});
    }
    to.not_recorded.push_back({std::string(kStripped), 1, kNone});
    made_.generators = from_.generators.size();
  }

  /// A copy of an argument or a result. Numbers stay among arguments, which are the program; as results they are data.
  Arg argument(const Arg& from, bool is_result) {
    Arg to;
    to.kind = from.kind;
    switch (from.kind) {
      case Arg::Kind::kNone:
      case Arg::Kind::kUndefinedTensor:
        break;
      case Arg::Kind::kBool:
      case Arg::Kind::kDType:
      case Arg::Kind::kLayout:
      case Arg::Kind::kMemoryFormat:
        to.integer = from.integer;
        break;
      case Arg::Kind::kInt:
        to.integer =
            is_result ? static_cast<std::int64_t>(hidden(fmt::format("{}", from.integer)) >> 44) : from.integer;
        break;
      case Arg::Kind::kDouble:
        to.real = is_result ? hidden_real(from.real) : from.real;
        break;
      case Arg::Kind::kComplex:
        to.real = is_result ? hidden_real(from.real) : from.real;
        to.imaginary = is_result ? hidden_real(from.imaginary) : from.imaginary;
        break;
      case Arg::Kind::kString:
        to.text = words_.string(from.text);
        break;
      case Arg::Kind::kDevice:
      case Arg::Kind::kGenerator:
        to.text = words_.device(from.text);
        break;
      case Arg::Kind::kOpaque:
        to.text = words_.opaque(from.text);
        break;
      case Arg::Kind::kTensor:
        to.tensor = from.tensor;
        break;
      case Arg::Kind::kList:
        for (const Arg& element : from.list) to.list.push_back(argument(element, is_result));
        break;
    }
    return to;
  }

  /// The same for the same number, so that what changed from iteration to iteration still does.
  std::uint64_t hidden(const std::string& number) {
    ++made_.results;
    return keyed(key_, "number " + number);
  }
  double hidden_real(double number) { return static_cast<double>(hidden(double_text(number)) >> 11) * 0x1p-53; }

  void copy_ops() {
    for (const Op& op : from_.ops) {
      Op copy{op.schema, op.site, op.module, op.phase, op.thread, {}, {}};
      for (const Arg& arg : op.args) copy.args.push_back(argument(arg, false));
      for (const Arg& output : op.outputs) copy.outputs.push_back(argument(output, true));
      made_.trace.ops.push_back(std::move(copy));
    }
  }

  void copy_iterations() {
    for (const Iteration& iteration : from_.iterations) {
      Iteration copy{iteration.first_op, iteration.op_count, iteration.complete, {}};
      for (const Loss& loss : iteration.losses)
        copy.losses.push_back({loss.tensor, std::numeric_limits<double>::quiet_NaN()});
      made_.results += iteration.losses.size();
      made_.trace.iterations.push_back(std::move(copy));
    }
  }

  BlobId blob(const Source& source) {
    if (source.original == kNone) return kNone;
    const auto [place, is_new] = blobs_.try_emplace(source, kNone);
    if (is_new) place->second = store_->add(source);
    return place->second;
  }

  /// What an op reads as what it is there.
  DType dtype_at(const External& external) const {
    DType found = uses_[external.storage].dtype;
    bool is_met = false;
    if (external.op >= from_.ops.size()) return found;
    for (const Arg& arg : from_.ops[external.op].args) {
      visit_tensors(arg, [&](TensorId id) {
        if (is_met || from_.tensors[id].storage != external.storage) return;
        found = from_.tensors[id].dtype;
        is_met = true;
      });
    }
    return found;
  }

  void copy_externals_and_draws() {
    for (const External& external : from_.externals) {
      const StorageUse& use = uses_[external.storage];
      Source source{external.blob, dtype_at(external), use.is_used && use.is_number, {.keeps_order = use.keeps_order}};
      made_.numbers += source.is_number;
      const BlobId made = blob(source);
      read_.try_emplace({external.blob, source.dtype}, made);
      made_.trace.externals.push_back(
          {external.storage, external.iteration, external.op, external.role, words_.state(external.name), made});
    }
    for (const Draw& draw : from_.draws) {
      const auto& outputs = from_.ops[draw.op].outputs;
      const bool is_tensor = draw.output < outputs.size() && outputs[draw.output].kind == Arg::Kind::kTensor;
      const DType dtype = is_tensor ? from_.tensors[outputs[draw.output].tensor].dtype : DType::kOther;
      made_.trace.draws.push_back({draw.op, draw.output, blob({draw.blob, dtype, false, {}})});
    }
  }

  /// Bytes that are compared and never read. What ops read as well stays equal to that: a state that nothing changes.
  BlobId compared(BlobId original, DType dtype) {
    const auto known = read_.find({original, dtype});
    return known != read_.end() ? known->second : blob({original, dtype, false, {.is_compared_only = true}});
  }

  void copy_ends() {
    for (const FinalState& state : from_.final_states) {
      made_.trace.final_states.push_back(
          {state.storage, state.role, words_.state(state.name), compared(state.blob, uses_[state.storage].dtype)});
    }
    for (const Output& output : from_.outputs) {
      made_.trace.outputs.push_back({output.iteration, words_.dotted(output.name), output.tensor,
                                     compared(output.blob, from_.tensors[output.tensor].dtype)});
    }
  }

  Result<void> hash_blobs() {
    std::vector<Blob>& made = made_.trace.blobs;
    made.resize(blobs_.size());
    for (const auto& [source, id] : blobs_) {
      CRUCIBLE_TRY(const std::vector<std::byte> content, store_->load(id));
      made[id] = {sha256(content), content.size()};
      if (source.is_number) continue;
      ++made_.blobs;
      made_.blob_bytes += content.size();
    }
    return {};
  }

  const Trace& from_;
  const ContentHash key_;
  StripWords words_;
  std::shared_ptr<NoiseStore> store_;  // shared: the copy has it too
  std::vector<StorageUse> uses_;
  std::map<Source, BlobId> blobs_;
  std::map<std::pair<BlobId, DType>, BlobId> read_;  // by original
  Stripped made_;
};

}  // namespace

bool is_stripped(const Trace& trace) {
  return std::ranges::find(trace.not_recorded, kStripped, &NotRecorded::what) != trace.not_recorded.end();
}

Result<Stripped> strip(const Trace& trace, const ContentHash& key) { return Stripping(trace, key).run(); }

}  // namespace crucible::trace
