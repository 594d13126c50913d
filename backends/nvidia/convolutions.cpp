// Convolutions by cuDNN: see cudnn.hpp. One is a graph of one operation; heuristics give engines for it, and the first whose plan can be
// built, whose numerics are allowed and whose workspace fits is taken. All descriptors of a call live as long as it does.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/nvidia/cudnn.hpp"
#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::uint64_t kScratchAlignment = 256;  // the host's planner gives it
constexpr std::int64_t kMostEngines = 64;         // of one heuristic

/// A descriptor of the library, with what is set in it.
class Descriptor {
 public:
  Descriptor(const Cudnn& cudnn, int type, const char* name) : cudnn_(&cudnn), name_(name) {
    cudnn.check(cudnn.cudnnBackendCreateDescriptor(type, &handle_), std::string("cudnnBackendCreateDescriptor of ") + name);
  }
  Descriptor(Descriptor&& other) noexcept : cudnn_(other.cudnn_), name_(other.name_), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(name_, other.name_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_ != nullptr) (void)cudnn_->cudnnBackendDestroyDescriptor(handle_);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  void set(int attribute, int type, std::int64_t count, const void* values) {
    cudnn_->check(cudnn_->cudnnBackendSetAttribute(handle_, attribute, type, count, values),
                  "cudnnBackendSetAttribute " + std::to_string(attribute) + " of " + name_);
  }
  void set(int attribute, const Descriptor& other) {
    cudnnBackendDescriptor_t const handle = other.get();
    set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  }
  void set(int attribute, std::int64_t value) { set(attribute, CUDNN_TYPE_INT64, 1, &value); }
  template <std::size_t kCount>
  void set(int attribute, const std::array<std::int64_t, kCount>& values) { set(attribute, CUDNN_TYPE_INT64, kCount, values.data()); }
  cudnnStatus_t try_finalize() { return cudnn_->cudnnBackendFinalize(handle_); }
  void finalize() { cudnn_->check(try_finalize(), std::string("cudnnBackendFinalize of ") + name_); }

 private:
  const Cudnn* cudnn_;
  const char* name_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// DType's numbers, which are part of the ABI.
int type_of(std::uint32_t dtype) { return dtype == 6 ? CUDNN_DATA_HALF : dtype == 7 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

/// What each kind of operation calls its parts.
struct Names {
  int descriptor, alpha, beta, convolution, x, weight, y;
};
Names names_of(std::uint32_t kind) {
  if (kind == CRUCIBLE_LIB_CONV2D)
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  if (kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT)
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

Descriptor describe_tensor(const Cudnn& cudnn, const sdk::ConvolutionTensor& tensor, std::uint32_t dtype, std::uint64_t alignment) {
  Descriptor d(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  const int type = type_of(dtype);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.sizes);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.view);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<std::int64_t>(alignment));
  d.finalize();
  return d;
}

/// Sums are of f32 for all types.
Descriptor describe_convolution(const Cudnn& cudnn, const sdk::Convolution& c) {
  Descriptor d(cudnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution");
  const int type = CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride);
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.padding);
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.padding);
  d.finalize();
  return d;
}

/// The engines that a heuristic proposes for a graph, best first; none where it does not know it.
std::vector<Descriptor> propose(const Cudnn& cudnn, Descriptor& heuristic, const Descriptor& graph, int mode) {
  std::vector<Descriptor> engines;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (const cudnnStatus_t status = heuristic.try_finalize(); status != CUDNN_STATUS_SUCCESS) {
    try {
      cudnn.check(status, "cudnnBackendFinalize of heuristics");
    } catch (const sdk::Failure& failure) {
      if (failure.code() != CRUCIBLE_E_UNSUPPORTED) throw;
    }
    return engines;
  }
  const auto get = [&](std::int64_t wanted, std::int64_t& count, cudnnBackendDescriptor_t* places) {
    cudnn.check(cudnn.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted,
                                               &count, places),
                "cudnnBackendGetAttribute of heuristics");
  };
  std::int64_t count = 0;
  get(0, count, nullptr);
  std::vector<cudnnBackendDescriptor_t> places;
  for (std::int64_t i = 0; i < std::min(count, kMostEngines); ++i) {
    engines.emplace_back(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration");
    places.push_back(engines.back().get());
  }
  if (!places.empty()) get(static_cast<std::int64_t>(places.size()), count, places.data());
  engines.erase(engines.begin() + std::min<std::int64_t>(count, static_cast<std::int64_t>(engines.size())), engines.end());
  return engines;
}

/// The same bits in every run, sums in f32, and operands as they are: rounded to TF32 only where that is allowed.
bool has_allowed_numerics(const Cudnn& cudnn, const Descriptor& configuration, std::uint32_t dtype, bool allows_tf32) {
  const Descriptor engine(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
  cudnnBackendDescriptor_t place = engine.get();
  std::int64_t count = 0;
  cudnn.check(cudnn.cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &place),
              "cudnnBackendGetAttribute of an engine's configuration");
  std::array<int, 64> notes = {};  // more than any version has
  cudnn.check(cudnn.cudnnBackendGetAttribute(place, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                             static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute of an engine");
  for (std::size_t i = 0; i < std::min(notes.size(), static_cast<std::size_t>(count)); ++i) {
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
        notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
      return false;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && dtype == 8 && !allows_tf32) return false;
  }
  return true;
}

}  // namespace

struct Convolutions::Call {
  std::vector<Descriptor> parts;  // what the plan was made from
  std::vector<Descriptor> plan;   // one, unless it is refused
  std::uint64_t scratch_bytes = 0;
  std::string refusal;  // why there is none
};

Convolutions::Convolutions(crucible_device& device, const Cudnn& cudnn) : cudnn_(cudnn) {
  most_scratch_ = options().get_u64("blas_workspace_mib") << 20;
  allows_tf32_ = options().get_bool("tf32");
  const cudnnStatus_t status = cudnn.cudnnCreate(&handle_);
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, cudnn.describe() + " (" + cudnn.file + ") does not start on " + device.facts.id +
                                                 ": cudnnCreate: " + cudnn.cudnnGetErrorString(status),
                     {{"vendor.code", std::to_string(status)}, {"where", cudnn.file}});
}

Convolutions::~Convolutions() {
  calls_.clear();
  if (handle_ != nullptr) (void)cudnn_.cudnnDestroy(handle_);
}

std::unique_ptr<Convolutions::Call> Convolutions::make(const sdk::Convolution& c, const std::uint64_t* alignments,
                                                       std::uint64_t most_scratch) const {
  auto call = std::make_unique<Call>();
  const Names names = names_of(c.kind);
  Descriptor operation(cudnn_, names.descriptor, "an operation");
  const auto part = [&](int attribute, Descriptor made) {
    operation.set(attribute, made);
    call->parts.push_back(std::move(made));
  };
  part(names.x, describe_tensor(cudnn_, c.x, c.dtype, alignments[c.x.view]));
  part(names.weight, describe_tensor(cudnn_, c.weight, c.dtype, alignments[c.weight.view]));
  part(names.y, describe_tensor(cudnn_, c.y, c.dtype, alignments[c.y.view]));
  part(names.convolution, describe_convolution(cudnn_, c));
  const float one = 1, zero = 0;
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.finalize();
  Descriptor graph(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  for (const int mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristic(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
    for (Descriptor& engine : propose(cudnn_, heuristic, graph, mode)) {
      if (!has_allowed_numerics(cudnn_, engine, c.dtype, allows_tf32_)) continue;
      Descriptor plan(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "an execution plan");
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
      if (plan.try_finalize() != CUDNN_STATUS_SUCCESS) continue;  // the next may do; whatever it was, there is no plan by this one
      std::int64_t bytes = 0, count = 0;
      cudnn_.check(cudnn_.cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
                   "cudnnBackendGetAttribute of an execution plan");
      if (bytes < 0 || static_cast<std::uint64_t>(bytes) > most_scratch) continue;
      call->scratch_bytes = static_cast<std::uint64_t>(bytes);
      call->plan.push_back(std::move(plan));
      call->parts.push_back(std::move(engine));
      call->parts.push_back(std::move(heuristic));
      call->parts.push_back(std::move(graph));
      call->parts.push_back(std::move(operation));
      return call;
    }
  }
  call->parts.clear();
  call->refusal = "convolution: " + cudnn_.describe() + " has no plan for " + c.shape() + " with " + std::to_string(most_scratch) +
                  " bytes of workspace";
  return call;
}

const Convolutions::Call& Convolutions::find(const sdk::Convolution& c, const std::uint64_t* alignments, std::uint64_t most_scratch) {
  std::string key = c.shape();
  for (int view = 0; view < 3; ++view) key += " " + std::to_string(alignments[view]);
  key += " scratch " + std::to_string(most_scratch);
  std::unique_ptr<const Call>& call = calls_[key];
  if (call == nullptr) call = make(c, alignments, most_scratch);
  if (!call->refusal.empty()) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, call->refusal);
  return *call;
}

/// What claim() chose, unless the buffers lie worse or the scratch is smaller than it was told: then what fits.
const Convolutions::Call& Convolutions::fitting(const sdk::Convolution& c, const std::uint64_t* addresses, std::uint64_t scratch_bytes) {
  std::array<std::uint64_t, 3> alignments;
  for (int view = 0; view < 3; ++view) alignments[static_cast<std::size_t>(view)] = sdk::convolution_alignment(c, view, addresses[view]);
  if (scratch_bytes != 0 && addresses[3] % kScratchAlignment != 0) scratch_bytes = 0;
  try {
    const Call& call = find(c, alignments.data(), most_scratch_);
    if (call.scratch_bytes <= scratch_bytes) return call;
  } catch (const sdk::Failure& failure) {
    if (failure.code() != CRUCIBLE_E_UNSUPPORTED) throw;
  }
  return find(c, alignments.data(), scratch_bytes);
}

std::uint64_t Convolutions::scratch_bytes(const sdk::Convolution& c) {
  std::array<std::uint64_t, 3> alignments;
  for (int view = 0; view < 3; ++view) alignments[static_cast<std::size_t>(view)] = sdk::convolution_alignment(c, view, 0);
  const std::lock_guard lock(mutex_);
  return find(c, alignments.data(), most_scratch_).scratch_bytes;
}

void Convolutions::prepare(const sdk::Convolution& c, const std::uint64_t* addresses, std::uint64_t scratch_bytes) {
  const std::lock_guard lock(mutex_);
  (void)fitting(c, addresses, scratch_bytes);
}

void Convolutions::enqueue(const sdk::Convolution& c, const std::uint64_t* addresses, std::uint64_t scratch_bytes, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const Call& call = fitting(c, addresses, scratch_bytes);
  const std::array<std::int64_t, 3> ids = {0, 1, 2};
  std::array<void*, 3> places;
  for (int view = 0; view < 3; ++view) {
    places[static_cast<std::size_t>(view)] =
        reinterpret_cast<void*>(addresses[view] + static_cast<std::uint64_t>(c.tensor(view).offset) * c.element_bytes());
  }
  void* const scratch = call.scratch_bytes == 0 ? nullptr : reinterpret_cast<void*>(addresses[3]);
  Descriptor pack(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "addresses");
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, places.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize();
  cudnn_.check(cudnn_.cudnnSetStream(handle_, stream), "cudnnSetStream");
  cudnn_.check(cudnn_.cudnnBackendExecute(handle_, call.plan.front().get(), pack.get()), "cudnnBackendExecute of " + c.shape());
}

}  // namespace crucible_nvidia
