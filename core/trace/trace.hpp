// A recording in memory: what a PyTorch program executed over some iterations, with every argument and every external
// byte. Filled by a frontend (frontends/torch) or by the reader of a .crtrace file (trace_file.hpp); read by the
// lowering (frontends/aten) and by `crucible trace`. It knows tensors and schemas, not what any op means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/hash.hpp"
#include "core/base/result.hpp"

namespace crucible::trace {

using StorageId = std::uint32_t;  // a storage by generation: a recycled address is a new id
using TensorId = std::uint32_t;
using SchemaId = std::uint32_t;
using SiteId = std::uint32_t;
using ModuleId = std::uint32_t;
using BlobId = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xffffffffu;  // "no such id", for all of the above

/// One operator as the framework declares it; name is "aten::add", overload "Tensor" or "".
struct Schema {
  std::string name;
  std::string overload;
  std::string text;  // "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  /// "aten::add.Tensor", or "aten::relu" without an overload.
  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
};

/// A Python source line.
struct Site {
  std::string file;
  std::uint32_t line = 0;
  std::string function;
};

struct Storage {
  std::uint64_t size_bytes = 0;
  std::string device;  // "cpu", "cuda:0"
};

/// A tensor as an op saw it: a view of a storage. Offset, sizes and strides are in elements.
struct Tensor {
  StorageId storage = kNone;  // kNone: has no storage (sparse, opaque)
  DType dtype = DType::kF32;
  bool requires_grad = false;
  bool is_wrapped_number = false;  // a Python number in a 0-dim tensor; matters for type promotion
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool operator==(const Tensor&) const = default;
};

/// One argument or result of an op, exactly as it was passed.
struct Arg {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kDouble,
    kComplex,
    kString,
    kDType,
    kDevice,
    kLayout,
    kMemoryFormat,
    kGenerator,
    kTensor,
    kUndefinedTensor,
    kList,
    kOpaque,
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // kBool, kInt, kDType (a DType), kLayout and kMemoryFormat (the framework's number)
  double real = 0;           // kDouble, kComplex
  double imaginary = 0;      // kComplex
  TensorId tensor = kNone;   // kTensor
  std::string text;          // kString, kDevice, kOpaque (type name), kGenerator ("cpu", "default cpu")
  std::vector<Arg> list;     // kList
  bool operator==(const Arg&) const = default;
};

enum class Phase : std::uint8_t { kForward = 0, kBackward = 1, kOptimizer = 2 };

struct Op {
  SchemaId schema = kNone;
  SiteId site = kNone;      // innermost Python line outside the framework
  ModuleId module = kNone;  // path of the nn.Module that was running ("blocks.0.norm1"), forward only
  Phase phase = Phase::kForward;
  std::uint32_t thread = 0;  // 0 is the thread that recorded first
  std::vector<Arg> args;     // in schema order, defaults filled in
  std::vector<Arg> outputs;
};

/// What a storage is to the program; guessed by the frontend from modules and optimizers, refined by the lowering.
enum class Role : std::uint8_t { kUnknown = 0, kParameter = 1, kBuffer = 2, kOptimizerState = 3, kInput = 4 };

/// Bytes that entered from outside: the whole storage as it was just before op `op` read it for the first time.
struct External {
  StorageId storage = kNone;
  std::uint32_t iteration = 0;
  std::uint32_t op = 0;  // index in Trace::ops
  Role role = Role::kUnknown;
  std::string name;  // "blocks.0.norm1.weight", "exp_avg of blocks.0.norm1.weight", or ""
  BlobId blob = kNone;
};

/// What a random op drew: the elements of its output `output`, dense and row-major, to be fed back at replay.
struct Draw {
  std::uint32_t op = 0;
  std::uint32_t output = 0;
  BlobId blob = kNone;
};

/// A tensor on which backward was called, and its value then.
struct Loss {
  TensorId tensor = kNone;
  double value = 0;
};

struct Iteration {
  std::uint32_t first_op = 0;
  std::uint32_t op_count = 0;
  bool complete = true;
  std::vector<Loss> losses;
};

/// Bytes of a parameter, buffer or optimizer state after the last recorded iteration.
struct FinalState {
  StorageId storage = kNone;
  Role role = Role::kUnknown;
  std::string name;
  BlobId blob = kNone;
};

/// The state of a device's default generator when an iteration began: the framework's own bytes.
struct GeneratorState {
  std::uint32_t iteration = 0;
  std::string device;
  BlobId blob = kNone;
};

/// What an iteration of inference gave back: the elements of a tensor that its outermost module returned, dense and
/// row-major, as they were then.
struct Output {
  std::uint32_t iteration = 0;
  std::string name;  // "0", "logits", "past_key_values.0.1"
  TensorId tensor = kNone;
  BlobId blob = kNone;
};

/// A tensor that is not one strided view of one storage: what it consists of. Its own Tensor has storage kNone.
struct CompoundTensor {
  TensorId tensor = kNone;
  std::string kind;  // "sparse_coo", "sparse_csr", "nested", "quantized_per_tensor", "conjugate", ...
  std::vector<std::pair<std::string, Arg>> parts;  // ("indices", a tensor), ("scale", a double), ...
};

/// Something that the recorder saw and could not keep, with its count and the first line that caused it.
struct NotRecorded {
  std::string what;
  std::uint64_t count = 0;
  SiteId site = kNone;
};

/// A deduplicated piece of content. `hash` is of the uncompressed bytes.
struct Blob {
  ContentHash hash;
  std::uint64_t size_bytes = 0;
};

/// Where the bytes of blobs come from: memory while recording, a mapped file after reading.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  /// The uncompressed bytes of blob `id`, checked against its checksum. Threads: any.
  /// Errors: kBadInput when the id is out of range or the stored bytes are damaged.
  virtual Result<std::vector<std::byte>> load(BlobId id) const = 0;
};

/// About the recording as a whole; free text, kept as written.
struct Metadata {
  std::string framework;          // "torch 2.11.0"
  std::string frontend;           // "crucible 0.1.0, typed kernels on the Fake key"
  std::string device;             // "cuda:0": of the first storage that is not the processor's; else "cpu"
  std::string command;            // the script and its arguments
  std::string created;            // ISO 8601, UTC
  std::string incomplete_reason;  // why the last iteration is missing, or ""
  std::uint32_t warmup_iterations = 0;
  std::uint64_t overhead_ns_per_op = 0;    // measured by the recorder over the recorded iterations; 0 is not measured
  std::optional<std::uint32_t> rank = {};  // of a program of several processes: which one this is, from 0
  std::optional<std::uint32_t> world_size = {};  // and how many there are
  /// Switches of the framework that change how precisely it computes, as the recorded iterations left them:
  /// "cuda.matmul=none, cuda.conv=tf32, ...". "": not recorded, or as always on a CPU.
  std::string precision = {};
  std::string blob_folder =
      {};  // of a file whose blobs lie in a folder of their own: that folder, relative to the file's
};

struct Trace {
  Metadata metadata;
  std::vector<Schema> schemas;
  std::vector<Site> sites;
  std::vector<std::string> modules;
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Iteration> iterations;
  std::vector<External> externals;
  std::vector<Draw> draws;
  std::vector<FinalState> final_states;
  std::vector<NotRecorded> not_recorded;
  std::vector<GeneratorState> generators;
  std::vector<Output> outputs;
  std::vector<CompoundTensor> compounds;
  /// One list per op, or nothing at all when they were not taken: XXH3-64 (seed 0) of the dense row-major elements of
  /// each tensor in its results, then of each tensor that it wrote in place, in the order of the schema with lists
  /// flattened, all as they are after the op. 0: nothing to compare (an undefined tensor, elements that cannot be read,
  /// memory that the op returned without filling it).
  std::vector<std::vector<std::uint64_t>> op_hashes;
  std::vector<Blob> blobs;
  std::shared_ptr<const BlobStore> blob_store;  // shared: programs made from the trace load weights later

  std::string site_text(SiteId id) const;  // "train.py:31", or "?" for kNone
};

}  // namespace crucible::trace
