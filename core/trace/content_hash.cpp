// The canonical form: records are written where they are first used and have the number of that first use afterwards;
// tables whose order says nothing are sorted. The bytes go into the hash as they are made.
#include "core/trace/content_hash.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/trace/byte_stream.hpp"
#include "core/trace/compounds.hpp"

namespace crucible::trace {

namespace {

std::string text_of(const ByteWriter& bytes) {
  return {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.size()};
}

/// Numbers by first use. Ids of equal content get the same number, so that it does not matter how often a table has it.
class FirstUse {
 public:
  /// The number of `id`, and whether its content comes for the first time. `content` is called once per id.
  template <class Content>
  std::pair<std::uint64_t, bool> number(std::uint32_t id, Content content) {
    if (const auto known = by_id_.find(id); known != by_id_.end()) return {known->second, false};
    const auto [place, is_new] = by_content_.try_emplace(content(), by_content_.size());
    by_id_[id] = place->second;
    return {place->second, is_new};
  }

 private:
  std::unordered_map<std::uint32_t, std::uint64_t> by_id_;
  std::unordered_map<std::string, std::uint64_t> by_content_;
};

class Canonical {
 public:
  explicit Canonical(const Trace& trace) : trace_(trace) {}

  ContentHash program() {
    Sha256 hash;
    out_.text("crucible program 1");
    out_.varint(trace_.iterations.size());
    for (const Iteration& iteration : trace_.iterations) {
      out_.varint(iteration.first_op);
      out_.varint(iteration.op_count);
      out_.u8(iteration.complete);
    }
    out_.varint(trace_.ops.size());
    for (const Op& op : trace_.ops) {
      put(op);
      if (out_.size() > kPart) pour(hash);
    }
    pour(hash);
    return hash.finish();
  }

  /// After program(), whose numbers it goes on with.
  ContentHash content(const ContentHash& program) {
    Sha256 hash;
    out_.text("crucible content 1");
    out_.raw(std::as_bytes(std::span(program.bytes)));
    put_losses();
    put_outputs();
    put_sorted(trace_.draws, [this](ByteWriter& to, const Draw& draw) {
      to.varint(draw.op);
      to.varint(draw.output);
      put_blob(to, draw.blob);
    });
    put_sorted(trace_.generators, [this](ByteWriter& to, const GeneratorState& state) {
      to.varint(state.iteration);
      to.text(state.device);
      put_blob(to, state.blob);
    });
    pour(hash);
    put_states();
    pour(hash);
    return hash.finish();
  }

 private:
  static constexpr std::size_t kPart = 64 << 10;

  void pour(Sha256& hash) {
    hash.update(out_.bytes());
    out_.clear();
  }

  void put(const Op& op) {
    const auto [schema, is_new_schema] = schemas_.number(op.schema, [&] { return schema_text(op.schema); });
    out_.varint(schema);
    if (is_new_schema) out_.text(schema_text(op.schema));
    if (op.module == kNone) {
      out_.varint(0);
    } else {
      const auto [module, is_new] = modules_.number(op.module, [&] { return trace_.modules[op.module]; });
      out_.varint(module + 1);
      if (is_new) out_.text(trace_.modules[op.module]);
    }
    out_.u8(static_cast<std::uint8_t>(op.phase));
    for (const auto* args : {&op.args, &op.outputs}) {
      out_.varint(args->size());
      for (const Arg& arg : *args) put(arg);
    }
  }

  std::string schema_text(SchemaId id) const {
    const Schema& schema = trace_.schemas[id];
    ByteWriter bytes;
    bytes.text(schema.name);
    bytes.text(schema.overload);
    bytes.text(schema.text);
    return text_of(bytes);
  }

  void put(const Arg& arg) {
    out_.u8(static_cast<std::uint8_t>(arg.kind));
    switch (arg.kind) {
      case Arg::Kind::kNone:
      case Arg::Kind::kUndefinedTensor:
        break;
      case Arg::Kind::kBool:
      case Arg::Kind::kInt:
      case Arg::Kind::kDType:
      case Arg::Kind::kLayout:
      case Arg::Kind::kMemoryFormat:
        out_.zigzag(arg.integer);
        break;
      case Arg::Kind::kComplex:
        out_.f64(arg.imaginary);
        [[fallthrough]];
      case Arg::Kind::kDouble:
        out_.f64(arg.real);
        break;
      case Arg::Kind::kString:
      case Arg::Kind::kDevice:
      case Arg::Kind::kGenerator:
      case Arg::Kind::kOpaque:
        out_.text(arg.text);
        break;
      case Arg::Kind::kTensor:
        put_tensor(arg.tensor);
        break;
      case Arg::Kind::kList:
        out_.varint(arg.list.size());
        for (const Arg& element : arg.list) put(element);
        break;
    }
  }

  /// The whole tensor each time: how often the table has an equal one does not matter.
  void put_tensor(TensorId id) {
    const Tensor& tensor = trace_.tensors[id];
    out_.u8(static_cast<std::uint8_t>(tensor.dtype));
    out_.u8(static_cast<std::uint8_t>(tensor.requires_grad | tensor.is_wrapped_number << 1));
    out_.zigzag(tensor.offset);
    out_.varint(tensor.sizes.size());
    for (const std::int64_t size : tensor.sizes) out_.zigzag(size);
    for (const std::int64_t stride : tensor.strides) out_.zigzag(stride);
    if (tensor.storage == kNone)
      put_without_storage(id);
    else
      put_storage(tensor.storage);
  }

  void put_storage(StorageId id) {
    const auto [place, is_new] = storages_.try_emplace(id, storages_.size());
    out_.varint(place->second + 1);
    if (!is_new) return;
    out_.varint(trace_.storages[id].size_bytes);
    out_.text(trace_.storages[id].device);
  }

  void put_without_storage(TensorId id) {
    out_.varint(0);
    const auto [place, is_new] = without_storage_.try_emplace(id, without_storage_.size());
    out_.varint(place->second);
    if (!is_new) return;
    const CompoundTensor* const compound = compounds_.find(id);
    out_.u8(compound != nullptr);
    if (compound == nullptr) return;
    out_.text(compound->kind);
    out_.varint(compound->parts.size());
    for (const auto& [name, part] : compound->parts) {
      out_.text(name);
      put(part);
    }
  }

  void put_losses() {
    for (const Iteration& iteration : trace_.iterations) {
      out_.varint(iteration.losses.size());
      for (const Loss& loss : iteration.losses) {
        put_tensor(loss.tensor);
        out_.f64(loss.value);
      }
    }
  }

  void put_outputs() {
    std::vector<const Output*> order;
    for (const Output& output : trace_.outputs) order.push_back(&output);
    using Numbers = const std::vector<std::int64_t>&;
    const auto key = [this](const Output* it) {
      const Tensor& tensor = trace_.tensors[it->tensor];
      return std::tuple<std::uint32_t, std::string_view, ContentHash, DType, std::int64_t, Numbers, Numbers>(
          it->iteration, it->name, trace_.blobs[it->blob].hash, tensor.dtype, tensor.offset, tensor.sizes,
          tensor.strides);
    };
    std::ranges::sort(order, [&key](const Output* a, const Output* b) { return key(a) < key(b); });
    out_.varint(order.size());
    for (const Output* output : order) {
      out_.varint(output->iteration);
      out_.text(output->name);
      put_tensor(output->tensor);
      put_blob(out_, output->blob);
    }
  }

  void put_blob(ByteWriter& to, BlobId id) const {
    to.raw(std::as_bytes(std::span(trace_.blobs[id].hash.bytes)));
    to.varint(trace_.blobs[id].size_bytes);
  }

  /// Records whose order says nothing.
  template <class Record, class Put>
  void put_sorted(const std::vector<Record>& records, Put put_record) {
    std::vector<std::string> texts;
    for (const Record& record : records) {
      ByteWriter bytes;
      put_record(bytes, record);
      texts.push_back(text_of(bytes));
    }
    put_texts(std::move(texts));
  }

  void put_texts(std::vector<std::string> texts) {
    std::ranges::sort(texts);
    out_.varint(texts.size());
    for (const std::string& text : texts) out_.text(text);
  }

  /// Externals and final states by the storage that they are of: those that ops use under their number, the others by
  /// what they are.
  void put_states() {
    std::map<StorageId, std::vector<std::string>> by_storage;
    for (const External& external : trace_.externals) {
      ByteWriter bytes;
      bytes.u8(0);
      bytes.varint(external.iteration);
      bytes.varint(external.op);
      bytes.u8(static_cast<std::uint8_t>(external.role));
      bytes.text(external.name);
      put_blob(bytes, external.blob);
      by_storage[external.storage].push_back(text_of(bytes));
    }
    for (const FinalState& state : trace_.final_states) {
      ByteWriter bytes;
      bytes.u8(1);
      bytes.u8(static_cast<std::uint8_t>(state.role));
      bytes.text(state.name);
      put_blob(bytes, state.blob);
      by_storage[state.storage].push_back(text_of(bytes));
    }
    std::vector<std::string> groups;
    for (auto& [storage, texts] : by_storage) {
      ByteWriter bytes;
      const auto used = storages_.find(storage);
      bytes.varint(used == storages_.end() ? 0 : used->second + 1);
      bytes.varint(trace_.storages[storage].size_bytes);
      bytes.text(trace_.storages[storage].device);
      std::ranges::sort(texts);
      for (const std::string& text : texts) bytes.text(text);
      groups.push_back(text_of(bytes));
    }
    put_texts(std::move(groups));
  }

  const Trace& trace_;
  ByteWriter out_;
  FirstUse schemas_, modules_;
  std::unordered_map<StorageId, std::uint64_t> storages_;
  std::unordered_map<TensorId, std::uint64_t> without_storage_;
  const Compounds compounds_{trace_};
};

}  // namespace

ContentHashes hash_content(const Trace& trace) {
  Canonical canonical(trace);
  ContentHashes hashes;
  hashes.program = canonical.program();
  hashes.content = canonical.content(hashes.program);
  return hashes;
}

}  // namespace crucible::trace
