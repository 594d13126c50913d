// Test data. std::mt19937_64 and plain arithmetic only, so that every machine makes the same traces.
#include "core/trace/trace_samples.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>

#include "core/base/hash.hpp"
#include "core/trace/memory_blob_store.hpp"

namespace crucible::trace::samples {

namespace {

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed, bool compressible) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(compressible ? random() % 3 : random());
  return bytes;
}

Arg arg(Arg::Kind kind, std::int64_t integer = 0, double real = 0, std::string text = "") {
  Arg made;
  made.kind = kind;
  made.integer = integer;
  made.real = real;
  made.text = std::move(text);
  return made;
}

Arg list(std::vector<Arg> elements) {
  Arg made = arg(Arg::Kind::kList);
  made.list = std::move(elements);
  return made;
}

Arg tensor_arg(TensorId id) {
  Arg made = arg(Arg::Kind::kTensor);
  made.tensor = id;
  return made;
}

Arg complex_arg(double real, double imaginary) {
  Arg made = arg(Arg::Kind::kComplex, 0, real);
  made.imaginary = imaginary;
  return made;
}

std::vector<Arg> one_of_each_kind() {
  using enum Arg::Kind;
  const double nan_with_payload = std::bit_cast<double>(0x7ff8dead'beef1234ull);
  const double negative_nan = std::bit_cast<double>(0xfff00000'00000001ull);
  return {arg(kNone),
          arg(kBool, 1),
          arg(kBool, 0),
          arg(kInt, std::numeric_limits<std::int64_t>::min()),
          arg(kInt, std::numeric_limits<std::int64_t>::max()),
          arg(kInt, -1),
          arg(kDouble, 0, -0.0),
          arg(kDouble, 0, 1e-310),
          arg(kDouble, 0, nan_with_payload),
          arg(kDouble, 0, negative_nan),
          arg(kDouble, 0, -std::numeric_limits<double>::infinity()),
          complex_arg(0.1, -0.0),
          arg(kString, 0, 0, "größe 尺寸 \xF0\x9F\x94\xA5 \xff not UTF-8"),
          arg(kString, 0, 0, std::string("a\0b", 3)),
          arg(kDType, 8),
          arg(kDevice, 0, 0, "cuda:0"),
          arg(kLayout, 2),
          arg(kMemoryFormat, 3),
          arg(kGenerator, 0, 0, "default cpu"),
          tensor_arg(1),
          arg(kUndefinedTensor),
          list({}),
          list({tensor_arg(0), arg(kUndefinedTensor), list({arg(kInt, 7), list({list({arg(kDouble, 0, 0.1)})})})}),
          arg(kOpaque, 0, 0, "__torch__.torch.classes.c10d.ProcessGroup")};
}

class RandomTrace {
 public:
  explicit RandomTrace(std::uint64_t seed) : random_(seed) {}

  Trace make(std::size_t ops) {
    auto store = std::make_shared<MemoryBlobStore>();
    for (std::uint64_t i = below(9) + 1; i > 0; --i) store->add(pattern(below(3000), random_(), below(2) == 0));
    trace_.blobs = store->blobs();
    trace_.blob_store = store;
    trace_.metadata = {text(),   text(), text(), text(), text(), text(), static_cast<std::uint32_t>(random_()),
                       random_()};
    fill_tables(ops);
    fill_ops(ops);
    fill_later_tables();
    return std::move(trace_);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::string text() {
    std::string made(below(20), ' ');
    for (char& letter : made) letter = static_cast<char>(random_());
    return made;
  }
  std::uint32_t id(std::size_t size, bool may_be_none = false) {
    if (may_be_none && (size == 0 || below(4) == 0)) return kNone;
    return static_cast<std::uint32_t>(below(size));
  }
  std::int64_t number() { return static_cast<std::int64_t>(random_() >> below(64)) * (below(2) == 0 ? 1 : -1); }

  void fill_tables(std::size_t ops) {
    for (std::size_t i = 0; i < ops / 4 + 1; ++i) {
      trace_.schemas.push_back({text(), text(), text()});
      trace_.sites.push_back({text(), static_cast<std::uint32_t>(random_()), text()});
      trace_.modules.push_back(text());
      trace_.storages.push_back({random_() >> below(64), text()});
    }
    for (std::size_t i = 0; i < ops + 1; ++i) {
      Tensor tensor;
      tensor.storage = id(trace_.storages.size(), true);
      tensor.dtype = below(8) == 0 ? DType::kOther : static_cast<DType>(below(12));
      tensor.requires_grad = below(2) == 0;
      tensor.is_wrapped_number = below(2) == 0;
      tensor.offset = number();
      for (std::uint64_t rank = below(5); rank > 0; --rank) {
        tensor.sizes.push_back(static_cast<std::int64_t>(random_() >> (1 + below(63))));
        tensor.strides.push_back(number());
      }
      trace_.tensors.push_back(std::move(tensor));
    }
  }

  Arg random_arg(int depth) {
    Arg made = arg(static_cast<Arg::Kind>(below(15)));
    using enum Arg::Kind;
    switch (made.kind) {
      case kNone:
      case kUndefinedTensor:
        break;
      case kBool:
        made.integer = static_cast<std::int64_t>(below(2));
        break;
      case kInt:
      case kDType:
      case kLayout:
      case kMemoryFormat:
        made.integer = number();
        break;
      case kComplex:
        made.imaginary = std::bit_cast<double>(random_());
        [[fallthrough]];
      case kDouble:
        made.real = std::bit_cast<double>(random_());
        break;
      case kString:
      case kDevice:
      case kGenerator:
      case kOpaque:
        made.text = text();
        break;
      case kTensor:
        made.tensor = id(trace_.tensors.size());
        break;
      case kList:
        for (std::uint64_t i = depth < 4 ? below(4) : 0; i > 0; --i) made.list.push_back(random_arg(depth + 1));
        break;
    }
    return made;
  }

  void fill_ops(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Op op{id(trace_.schemas.size()),
            id(trace_.sites.size(), true),
            id(trace_.modules.size(), true),
            static_cast<Phase>(below(3)),
            static_cast<std::uint32_t>(below(5)),
            {},
            {}};
      for (std::uint64_t n = below(6); n > 0; --n) op.args.push_back(random_arg(0));
      for (std::uint64_t n = below(3); n > 0; --n) op.outputs.push_back(random_arg(0));
      trace_.ops.push_back(std::move(op));
    }
    const std::uint32_t half = static_cast<std::uint32_t>(count / 2);
    trace_.iterations.push_back({0, half, true, {{id(trace_.tensors.size()), std::bit_cast<double>(random_())}}});
    trace_.iterations.push_back({half, static_cast<std::uint32_t>(count) - half, below(2) == 0, {}});
    for (std::uint32_t i = 0; i < count; ++i) {
      if (below(3) == 0) {
        trace_.externals.push_back(
            {id(trace_.storages.size()), id(2), i, static_cast<Role>(below(5)), text(), id(trace_.blobs.size())});
        trace_.final_states.push_back(
            {id(trace_.storages.size()), static_cast<Role>(below(5)), text(), id(trace_.blobs.size())});
        trace_.not_recorded.push_back({text(), random_(), id(trace_.sites.size(), true)});
      }
      if (!trace_.ops[i].outputs.empty()) trace_.draws.push_back({i, 0, id(trace_.blobs.size())});
    }
  }

  void fill_later_tables() {  // those of version 1.1: sometimes there, sometimes not
    for (std::uint64_t i = below(4); i > 0; --i) {
      trace_.generators.push_back({id(2), text(), id(trace_.blobs.size())});
      trace_.outputs.push_back({id(2), text(), id(trace_.tensors.size()), id(trace_.blobs.size())});
    }
    const bool has_compounds = below(2) == 0, has_hashes = below(2) == 0;
    for (TensorId tensor = 0; has_compounds && tensor < trace_.tensors.size(); ++tensor) {
      if (trace_.tensors[tensor].storage != kNone) continue;
      CompoundTensor& compound = trace_.compounds.emplace_back(tensor, text());
      // Parts before this one, so that none contains itself, and none is deeper than the others by more than one.
      for (std::uint64_t n = below(3); n > 0; --n) compound.parts.emplace_back(text(), arg(Arg::Kind::kInt, number()));
      if (trace_.compounds.size() < 12 && tensor > 0)
        compound.parts.emplace_back("before", list({tensor_arg(tensor - 1)}));
    }
    for (std::size_t i = 0; has_hashes && i < trace_.ops.size(); ++i) {
      std::vector<std::uint64_t>& hashes = trace_.op_hashes.emplace_back();
      for (std::uint64_t n = below(4); n > 0; --n) hashes.push_back(random_());
    }
  }

  std::mt19937_64 random_;
  Trace trace_;
};

std::string describe(const std::vector<Arg>& args);

std::string describe(const Arg& arg) {
  return fmt::format("{}:{}:{:x}:{:x}:{}:'{}':{}", static_cast<int>(arg.kind), arg.integer,
                     std::bit_cast<std::uint64_t>(arg.real), std::bit_cast<std::uint64_t>(arg.imaginary), arg.tensor,
                     arg.text, describe(arg.list));
}

std::string describe(const std::vector<Arg>& args) {
  std::string text = "[";
  for (const Arg& arg : args) text += describe(arg) + ";";
  return text + "]";
}

std::string describe_tables(const Trace& trace) {
  const Metadata& meta = trace.metadata;
  std::string text = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}\n", meta.framework, meta.frontend, meta.device,
                                 meta.command, meta.created, meta.incomplete_reason, meta.warmup_iterations,
                                 meta.overhead_ns_per_op, meta.precision);
  for (const Schema& it : trace.schemas) text += fmt::format("schema {}|{}|{}\n", it.name, it.overload, it.text);
  for (const Site& it : trace.sites) text += fmt::format("site {}|{}|{}\n", it.file, it.line, it.function);
  for (const std::string& it : trace.modules) text += fmt::format("module {}\n", it);
  for (const Storage& it : trace.storages) text += fmt::format("storage {}|{}\n", it.size_bytes, it.device);
  for (const Tensor& it : trace.tensors) {
    text += fmt::format("tensor {}|{}|{}|{}|{}|", it.storage, static_cast<int>(it.dtype), it.requires_grad,
                        it.is_wrapped_number, it.offset);
    for (const std::int64_t size : it.sizes) text += fmt::format("{},", size);
    for (const std::int64_t stride : it.strides) text += fmt::format("/{}", stride);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string describe(const Trace& trace) {
  std::string text = describe_tables(trace);
  for (const Op& it : trace.ops) {
    text += fmt::format("op {}|{}|{}|{}|{}|{}|{}\n", it.schema, it.site, it.module, static_cast<int>(it.phase),
                        it.thread, describe(it.args), describe(it.outputs));
  }
  for (const Iteration& it : trace.iterations) {
    text += fmt::format("iteration {}|{}|{}", it.first_op, it.op_count, it.complete);
    for (const Loss& loss : it.losses)
      text += fmt::format("|{}={:x}", loss.tensor, std::bit_cast<std::uint64_t>(loss.value));
    text += "\n";
  }
  for (const External& it : trace.externals) {
    text += fmt::format("external {}|{}|{}|{}|{}|{}\n", it.storage, it.iteration, it.op, static_cast<int>(it.role),
                        it.name, it.blob);
  }
  for (const Draw& it : trace.draws) text += fmt::format("draw {}|{}|{}\n", it.op, it.output, it.blob);
  for (const FinalState& it : trace.final_states) {
    text += fmt::format("final {}|{}|{}|{}\n", it.storage, static_cast<int>(it.role), it.name, it.blob);
  }
  for (const NotRecorded& it : trace.not_recorded) text += fmt::format("not {}|{}|{}\n", it.what, it.count, it.site);
  for (const GeneratorState& it : trace.generators)
    text += fmt::format("generator {}|{}|{}\n", it.iteration, it.device, it.blob);
  for (const Output& it : trace.outputs)
    text += fmt::format("output {}|{}|{}|{}\n", it.iteration, it.name, it.tensor, it.blob);
  for (const CompoundTensor& it : trace.compounds) {
    text += fmt::format("compound {}|{}", it.tensor, it.kind);
    for (const auto& [name, part] : it.parts) text += fmt::format("|{}={}", name, describe(part));
    text += "\n";
  }
  for (const auto& it : trace.op_hashes) text += fmt::format("hashes {:x}\n", fmt::join(it, ","));
  for (BlobId id = 0; id < trace.blobs.size(); ++id) {
    const auto content = trace.blob_store->load(id);
    text += fmt::format("blob {}|{}|{}\n", trace.blobs[id].hash.hex(), trace.blobs[id].size_bytes,
                        content ? sha256(*content).hex() : content.error().message);
  }
  return text;
}

void stream(const Trace& trace, StreamWriter& writer, bool end_last) {
  for (const Schema& it : trace.schemas) writer.add(it);
  for (const Site& it : trace.sites) writer.add(it);
  for (const std::string& it : trace.modules) writer.add_module(it);
  for (const Storage& it : trace.storages) writer.add(it);
  for (const Tensor& it : trace.tensors) writer.add(it);
  for (const CompoundTensor& it : trace.compounds) writer.add(it);
  std::size_t op = 0;
  BlobId blob = 0;
  const auto add_ops = [&](std::size_t end) {
    for (; op < end; ++op) {
      writer.add(trace.ops[op]);
      if (!trace.op_hashes.empty()) writer.add_op_hashes(trace.op_hashes[op]);
    }
  };
  for (const Iteration& it : trace.iterations) {
    add_ops(it.first_op + it.op_count);
    if (blob < trace.blobs.size()) writer.add_blob(*trace.blob_store->load(blob++));
    if (end_last || &it != &trace.iterations.back()) (void)writer.end_iteration(it);
  }
  add_ops(trace.ops.size());
  while (blob < trace.blobs.size()) writer.add_blob(*trace.blob_store->load(blob++));
  for (const External& it : trace.externals) writer.add(it);
  for (const Draw& it : trace.draws) writer.add(it);
  for (const FinalState& it : trace.final_states) writer.add(it);
  for (const GeneratorState& it : trace.generators) writer.add(it);
  for (const Output& it : trace.outputs) writer.add(it);
  writer.set_not_recorded(trace.not_recorded);
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "crucible-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder: " + name);
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::listing() const {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename().string());
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

Trace small_trace() {
  auto store = std::make_shared<MemoryBlobStore>();
  Trace trace;
  trace.metadata = {"torch 2.11.0",      "test", "cpu", "train.py --lr 0.1", "2026-01-02T03:04:05Z",
                    "raised ValueError", 2,      123};
  trace.schemas = {{"aten::add", "Tensor", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"},
                   {"aten::relu", "", "aten::relu(Tensor self) -> Tensor"}};
  trace.sites = {{"/home/zoë/train.py", 31, "step"}};
  trace.modules = {"blocks.0.norm1", ""};
  trace.storages = {{16, "cpu"}, {0, "cuda:0"}};
  trace.tensors = {{0, DType::kF32, true, false, 0, {2, 2}, {2, 1}},
                   {1, DType::kI64, false, true, -3, {}, {}},
                   {kNone, DType::kOther, false, false, 1, {0, 5}, {5, -1}}};
  trace.ops = {{0, 0, 0, Phase::kForward, 0, one_of_each_kind(), {tensor_arg(0)}},
               {1, kNone, kNone, Phase::kBackward, 3, {}, {}},
               {0, 0, 1, Phase::kOptimizer, 0, {tensor_arg(2)}, {list({tensor_arg(0)}), arg(Arg::Kind::kNone)}}};
  trace.iterations = {{0, 2, true, {{0, 2.5}, {1, -0.0}}}, {2, 1, false, {}}};
  const BlobId weights = store->add(pattern(300, 1, false));
  const BlobId zeros = store->add(std::vector<std::byte>(500));
  const BlobId nothing = store->add(std::vector<std::byte>{});
  trace.externals = {{0, 0, 0, Role::kParameter, "weight", weights}, {1, 1, 2, Role::kInput, "", zeros}};
  trace.draws = {{0, 0, zeros}, {2, 1, nothing}};
  trace.final_states = {{0, Role::kOptimizerState, "exp_avg of weight", weights}};
  trace.not_recorded = {{"an op on another thread", 18446744073709551615ull, 0}, {"graph break", 1, kNone}};
  trace.generators = {{0, "cpu", weights}, {1, "cuda:0", nothing}};
  trace.outputs = {{1, "logits", 0, weights}};
  trace.compounds = {{2, "sparse_coo", {{"indices", tensor_arg(1)}, {"values", list({tensor_arg(0)})}}}};
  trace.op_hashes = {{0x0123456789abcdefull, 0}, {}, {~0ull}};
  trace.blobs = store->blobs();
  trace.blob_store = store;
  return trace;
}

Trace random_trace(std::uint64_t seed, std::size_t ops) { return RandomTrace(seed).make(ops); }

Trace scalar_trace(const std::vector<double>& scalars) {
  Trace trace;
  trace.schemas = {{"aten::add", "Scalar", "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"}};
  trace.sites = {{"train.py", 5, "main"}};
  trace.modules = {"head"};
  trace.storages = {{512, "cpu"}, {512, "cpu"}};
  trace.tensors = {{0, DType::kF32, false, false, 0, {4, 32}, {32, 1}},
                   {1, DType::kF32, false, false, 0, {4, 32}, {32, 1}}};
  for (const double scalar : scalars) {
    trace.iterations.push_back({static_cast<std::uint32_t>(trace.ops.size()), 1, true, {}});
    trace.ops.push_back({0,
                         0,
                         0,
                         Phase::kForward,
                         0,
                         {tensor_arg(0), arg(Arg::Kind::kDouble, 0, scalar), arg(Arg::Kind::kInt, 1)},
                         {tensor_arg(1)}});
  }
  return trace;
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::byte> content_of(std::span<const std::byte> file, SectionId id) {
  const auto container = decode_container(file);
  if (!container) throw std::runtime_error(container.error().message);
  auto content = load_section(file, *container->find(id));
  if (!content) throw std::runtime_error(content.error().message);
  return *std::move(content);
}

std::vector<std::byte> rebuild(std::span<const std::byte> file,
                               const std::map<SectionId, std::vector<std::byte>>& contents) {
  auto container = decode_container(file);
  if (!container) throw std::runtime_error(container.error().message);
  std::map<SectionId, std::vector<std::byte>> all = contents;
  for (const SectionEntry& entry : container->sections) {
    const SectionId id = static_cast<SectionId>(entry.id);
    if (id == SectionId::kBlobs) {
      const auto area = file.subspan(entry.offset, entry.stored_bytes);
      all[id].assign(area.begin(), area.end());
    } else if (!contents.contains(id)) {
      all[id] = content_of(file, id);
    }
  }
  std::vector<std::byte> made(kHeaderBytes + all.size() * kSectionEntryBytes);
  container->sections.clear();
  for (const auto& [id, content] : all) {
    made.resize(align_up(made.size()));
    const bool is_blobs = id == SectionId::kBlobs;
    container->sections.push_back({static_cast<std::uint32_t>(id), is_blobs ? Codec::kIndexed : Codec::kRaw,
                                   made.size(), content.size(), content.size(), is_blobs ? 0 : checksum64(content)});
    made.insert(made.end(), content.begin(), content.end());
  }
  container->file_bytes = made.size();
  std::ranges::copy(encode_container(*container), made.begin());
  return made;
}

}  // namespace crucible::trace::samples
