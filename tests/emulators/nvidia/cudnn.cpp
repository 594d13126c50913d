// libcudnn.so.9 as far as a plugin asks for convolutions and attentions by the backend API: graphs of one convolution
// or of the operations of an attention (cudnn_attention.hpp), engines, execution on the memory and the streams of the
// emulated driver, which it finds beside itself. Its declarations are NVIDIA's own, so that the compiler checks every
// signature.
//
// Faults: init(cudnnCreate), query(cudnnGetVersion) for an old one, query(NAME) for heuristics, compile(NAME) for
// execution plans, launch(NAME); NAME is as conv_f32_forward_2x3x8x8_4x3x3x3 (forward, data, filter; x and weight),
// tf32 where an engine on tensor cores was taken for f32, lanes_bf16 where one without was for halves, or
// attention_bf16_causal_2x4x32x16_32 (q, and how many keys; attention_forward_ and attention_backward_ in training).
// Engines, best first (of halves 2 before 1, so that a plugin has to look): 0 adds in any order; 1 is on tensor cores;
// 2 wants scratch where sums are of 256 products and more; 3, which the fallback heuristics give, wants none. Of an
// attention there are 0 and 1, and no fallback. An operand that lies worse than it was described is refused, as is
// scratch that lies badly.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tests/emulators/core/convolution.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/nvidia/cudnn_attention.hpp"
#include "tests/emulators/nvidia/driver_beside.hpp"

struct cudnnContext {
  CUstream stream = nullptr;
};

namespace {

using namespace crucible::emulator;

constexpr int kAnyOrder = 0, kTensorCores = 1, kScratch = 2, kPlain = 3;
constexpr std::int64_t kScratchFromLength = 256, kScratchBytes = 4096;
constexpr int kPlanHandle = 400, kGraphHandle = 800;  // their names are deprecated in 9

const Driver& driver() {
  static const Driver found = find_driver_beside(reinterpret_cast<const void*>(&cudnnCreate));
  return found;
}

std::optional<ElementType> type_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return ElementType::kF16;
  if (type == CUDNN_DATA_BFLOAT16) return ElementType::kBF16;
  if (type == CUDNN_DATA_FLOAT) return ElementType::kF32;
  return std::nullopt;
}

template <std::size_t kCount>
std::array<std::int64_t, kCount> numbers(const CudnnDescriptor& descriptor, int attribute) {
  std::array<std::int64_t, kCount> result = {};
  std::ranges::copy(descriptor.all<std::int64_t>(attribute), result.begin());
  return result;
}

/// A convolution as it was described, with the identifiers and alignments of x, weight and y.
struct DescribedConvolution {
  Convolution convolution;
  std::array<std::int64_t, 3> ids, alignments;
};

/// Nothing for what is none, or whose parts do not live any more.
std::optional<DescribedConvolution> describe(const CudnnDescriptor* operation) {
  if (operation == nullptr) return std::nullopt;
  DescribedConvolution d;
  std::array<int, 4> parts;
  int alpha = 0, beta = 0;
  if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    parts = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC};
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA;
  } else if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    d.convolution.kind = ConvolutionKind::kBackwardData;
    parts = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC};
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA;
  } else {
    d.convolution.kind = ConvolutionKind::kBackwardFilter;
    parts = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC};
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA;
  }
  if (operation->one<float>(alpha) != 1 || operation->one<float>(beta) != 0) return std::nullopt;  // never asked for
  ConvolutionOperand* const operands[] = {&d.convolution.x, &d.convolution.weight, &d.convolution.y};
  std::array<ElementType, 3> types = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const CudnnDescriptor* const tensor = operation->part(parts[i]);
    if (tensor == nullptr || tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return std::nullopt;
    const auto type = type_of(tensor->one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE));
    if (!type) return std::nullopt;
    types[i] = *type;
    operands[i]->sizes = numbers<4>(*tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
    operands[i]->strides = numbers<4>(*tensor, CUDNN_ATTR_TENSOR_STRIDES);
    d.ids[i] = tensor->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    d.alignments[i] = tensor->one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  }
  const std::size_t result = d.convolution.kind == ConvolutionKind::kForward        ? 2
                             : d.convolution.kind == ConvolutionKind::kBackwardData ? 0
                                                                                    : 1;
  const ElementType type = d.convolution.type = types[(result + 1) % 3];
  d.convolution.keeps_f32 = types[result] == ElementType::kF32 && type != ElementType::kF32;
  if (types[(result + 2) % 3] != type || (types[result] != type && !d.convolution.keeps_f32)) return std::nullopt;
  const CudnnDescriptor* const how = operation->part(parts[3]);
  if (how == nullptr || how->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return std::nullopt;
  if (how->one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT) return std::nullopt;
  if (how->one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    return std::nullopt;
  if (how->one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2) return std::nullopt;
  d.convolution.stride = numbers<2>(*how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  d.convolution.dilation = numbers<2>(*how, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  d.convolution.padding = numbers<2>(*how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  if (numbers<2>(*how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) != d.convolution.padding || !d.convolution.fits())
    return std::nullopt;
  return d;
}

/// What a graph does: one of the two.
struct Described {
  std::optional<DescribedConvolution> convolution{};
  std::optional<AttentionGraph> attention{};

  std::string name(int engine) const {
    if (attention) return attention->name();
    std::string name = convolution->convolution.name();
    const bool is_f32 = convolution->convolution.type == ElementType::kF32;
    if (engine == kTensorCores && is_f32) name.replace(name.find("f32"), 3, "tf32");
    if (engine != kTensorCores && !is_f32) name.insert(name.find('_') + 1, "lanes_");
    return name;
  }
  std::int64_t scratch(int engine) const {
    if (attention)
      return attention->part == AttentionPart::kBackward || attention->q.sizes[2] >= kScratchFromLength ? kScratchBytes
                                                                                                        : 0;
    return engine != kPlain && convolution->convolution.sum_length() >= kScratchFromLength ? kScratchBytes : 0;
  }
};

std::optional<Described> describe_graph(const CudnnDescriptor* graph) {
  if (graph == nullptr) return std::nullopt;
  const auto operations = graph->parts(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations.size() != 1) {
    auto attention = describe_attention(operations);
    return attention ? std::optional(Described{.attention = std::move(attention)}) : std::nullopt;
  }
  auto convolution = describe(operations.front());
  return convolution ? std::optional(Described{.convolution = std::move(convolution)}) : std::nullopt;
}

/// An engine's configuration refers to its graph by the attribute that an engine has for it.
std::optional<Described> describe_plan(const CudnnDescriptor& plan, int& engine) {
  const CudnnDescriptor* const configuration = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (configuration == nullptr || configuration->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return std::nullopt;
  engine = configuration->engine;
  return describe_graph(configuration->part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
}

std::vector<int> engines_of(const CudnnDescriptor& heuristic) {
  const bool is_fallback =
      heuristic.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  const auto described = describe_graph(heuristic.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  if (described && described->attention)
    return is_fallback ? std::vector<int>() : std::vector<int>{kAnyOrder, kTensorCores};
  if (is_fallback) return {kPlain};
  const bool is_f32 = described && described->convolution->convolution.type == ElementType::kF32;
  return is_f32 ? std::vector<int>{kAnyOrder, kTensorCores, kScratch}
                : std::vector<int>{kAnyOrder, kScratch, kTensorCores};
}

std::vector<cudnnBackendNumericalNote_t> notes_of(int engine) {
  if (engine == kAnyOrder) return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == kTensorCores) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  return {};
}

cudnnStatus_t finalize_heuristic(const CudnnDescriptor& heuristic) {
  const auto described = describe_graph(heuristic.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  if (!described) return CUDNN_STATUS_BAD_PARAM;
  if (described->attention && !described->attention->is_supported()) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  const auto rule = faults().hit(Site::kQuery, described->name(kPlain));
  if (rule && rule->action == Action::kFail) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  if (rule && rule->action == Action::kOom) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_plan(const CudnnDescriptor& plan) {
  int engine = -1;
  const auto described = describe_plan(plan, engine);
  if (!described || plan.one<cudnnHandle_t>(kPlanHandle) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const auto rule = faults().hit(Site::kCompile, described->name(engine));
  return rule && rule->action == Action::kFail ? CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT
                                               : CUDNN_STATUS_SUCCESS;
}

/// One element, or how many there are where none is wanted.
template <class T>
cudnnStatus_t answer(const std::vector<T>& values, std::int64_t wanted, std::int64_t* count, void* out) {
  if (count != nullptr)
    *count = wanted == 0 ? static_cast<std::int64_t>(values.size())
                         : std::min(wanted, static_cast<std::int64_t>(values.size()));
  if (wanted == 0) return CUDNN_STATUS_SUCCESS;
  if (out == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  std::copy_n(values.begin(), std::min(static_cast<std::size_t>(wanted), values.size()), static_cast<T*>(out));
  return CUDNN_STATUS_SUCCESS;
}

/// Descriptors that the caller has made are filled in.
cudnnStatus_t give_engine(void* place, cudnnBackendDescriptorType_t type, int engine, void* graph) {
  CudnnDescriptor* const descriptor = living_descriptor(place);
  if (descriptor == nullptr || descriptor->type != type) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  descriptor->engine = engine;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&graph);
  if (graph != nullptr)
    descriptor->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                             {bytes, bytes + sizeof(graph)}};
  descriptor->is_finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

/// A call on its way through a stream. Captured ones may run any number of times, and are kept.
struct Job {
  Described described;
  char* scratch = nullptr;
  std::optional<Rule> flip;
  bool may_round = false;  // to tf32
  bool is_kept = false;
};

void keep(std::unique_ptr<Job> job) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::deque<std::unique_ptr<Job>>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(job));
}

/// Each operand once, as one launch that keeps what it needs again.
Work work_of(const Convolution& c, bool may_round) {
  const auto elements = [](const ConvolutionOperand& o) {
    return static_cast<std::uint64_t>(o.sizes[0] * o.sizes[1] * o.sizes[2] * o.sizes[3]);
  };
  Work work;
  work.memory_bytes = (elements(c.x) + elements(c.weight) + elements(c.y)) * size_bytes(c.type);
  const auto taps = static_cast<std::uint64_t>(c.weight.sizes[1] * c.weight.sizes[2] * c.weight.sizes[3]);
  work.operations[static_cast<std::size_t>(matrix_unit(c.type, may_round))] = 2 * elements(c.y) * taps;
  return work;
}
Work work_of(const AttentionGraph& a) {
  Work work;
  work.memory_bytes = a.memory_bytes();
  work.operations[static_cast<std::size_t>(matrix_unit(a.type, false))] = a.operations();
  return work;
}

char* result_of(const Described& described) {
  if (described.attention) return described.attention->result();
  const Convolution& c = described.convolution->convolution;
  return (c.kind == ConvolutionKind::kForward ? c.y : c.kind == ConvolutionKind::kBackwardData ? c.x : c.weight).data;
}

void CUDA_CB run(void* data) {
  Job* const job = static_cast<Job*>(data);
  const Described& described = job->described;
  if (job->scratch != nullptr) std::memset(job->scratch, 0xee, kScratchBytes);  // whoever else uses it sees it
  if (settings().empty) {
    // Nothing is computed.
  } else if (described.attention) {
    const AttentionGraph& a = *described.attention;
    (a.part == AttentionPart::kBackward ? attend_backward : attend)(a);
  } else {
    convolve(described.convolution->convolution);
  }
  const Work work =
      described.attention ? work_of(*described.attention) : work_of(described.convolution->convolution, job->may_round);
  driver().spend(&work);
  if (job->flip) result_of(described)[job->flip->byte] ^= static_cast<char>(1 << job->flip->bit);
  if (!job->is_kept) delete job;
}

/// The addresses and numbers of a variant pack.
class Pack {
 public:
  explicit Pack(const CudnnDescriptor& pack)
      : ids_(pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)),
        pointers_(pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)) {}

  cudnnStatus_t place(std::int64_t id, std::int64_t alignment, char*& data) const {
    const auto address = reinterpret_cast<std::uint64_t>(find(id));
    if (!is_device_address(address)) return CUDNN_STATUS_BAD_PARAM;
    if (address % static_cast<std::uint64_t>(alignment) != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    data = host_address(address);
    return CUDNN_STATUS_SUCCESS;
  }
  /// What is given by value lies in the host's memory.
  cudnnStatus_t read(std::int64_t id, float& number) const {
    const void* const from = find(id);
    if (from == nullptr || is_device_address(reinterpret_cast<std::uint64_t>(from))) return CUDNN_STATUS_BAD_PARAM;
    std::memcpy(&number, from, sizeof(number));
    return CUDNN_STATUS_SUCCESS;
  }
  bool is_whole() const { return ids_.size() == pointers_.size(); }

 private:
  void* find(std::int64_t id) const {
    const auto found = std::ranges::find(ids_, id);
    return found == ids_.end() ? nullptr : pointers_[static_cast<std::size_t>(found - ids_.begin())];
  }
  std::vector<std::int64_t> ids_;
  std::vector<void*> pointers_;
};

cudnnStatus_t place_operands(DescribedConvolution& described, const Pack& pack) {
  ConvolutionOperand* const operands[] = {&described.convolution.x, &described.convolution.weight,
                                          &described.convolution.y};
  for (std::size_t i = 0; i < 3; ++i) {
    if (const cudnnStatus_t status = pack.place(described.ids[i], described.alignments[i], operands[i]->data);
        status != CUDNN_STATUS_SUCCESS)
      return status;
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t place_operands(AttentionGraph& a, const Pack& pack) {
  for (AttentionOperand* operand : a.operands()) {
    if (const cudnnStatus_t status = pack.place(operand->id, operand->alignment, operand->data);
        status != CUDNN_STATUS_SUCCESS)
      return status;
  }
  cudnnStatus_t status = pack.read(a.scale_id, a.scale);
  if (status == CUDNN_STATUS_SUCCESS && a.is_causal) status = pack.read(a.hidden_id, a.hidden);
  if (status == CUDNN_STATUS_SUCCESS && a.part == AttentionPart::kBackward) status = pack.read(a.factor_id, a.factor);
  return status;
}

}  // namespace

size_t cudnnGetVersion() { return faults().hit(Site::kQuery, "cudnnGetVersion") ? 8400 : CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
      return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED:
      return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE:
      return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return status / 1000 == 2   ? "CUDNN_STATUS_BAD_PARAM"
             : status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED"
                                  : "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (!driver().has_context()) return CUDNN_STATUS_NOT_INITIALIZED;
  if (faults().hit(Site::kInit, "cudnnCreate")) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  handle->stream = reinterpret_cast<CUstream>(stream);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  CudnnDescriptor* const descriptor = living_descriptor(handle);
  if (descriptor == nullptr || descriptor->is_finalized) return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = check_complete(*descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (descriptor->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) status = finalize_heuristic(*descriptor);
  if (descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) status = finalize_plan(*descriptor);
  if (descriptor->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
      (descriptor->one<cudnnHandle_t>(kGraphHandle) == nullptr || !describe_graph(descriptor))) {
    const bool is_one = descriptor->parts(CUDNN_ATTR_OPERATIONGRAPH_OPS).size() == 1;
    status = is_one ? CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH : CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  }
  descriptor->is_finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  const CudnnDescriptor* const descriptor = living_descriptor(handle);
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (!descriptor->is_finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const auto is = [&](cudnnBackendDescriptorType_t of, int attribute, cudnnBackendAttributeType_t its) {
    return descriptor->type == of && static_cast<int>(name) == attribute && type == its;
  };
  if (is(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    const std::vector<int> engines = engines_of(*descriptor);
    if (count != nullptr) *count = static_cast<std::int64_t>(engines.size());
    for (std::size_t i = 0; i < engines.size() && i < static_cast<std::size_t>(wanted); ++i) {
      const cudnnStatus_t status =
          give_engine(static_cast<void**>(values)[i], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, engines[i],
                      descriptor->one<void*>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      if (status != CUDNN_STATUS_SUCCESS) return status;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR) && wanted == 1)
    return give_engine(*static_cast<void**>(values), CUDNN_BACKEND_ENGINE_DESCRIPTOR, descriptor->engine, nullptr);
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE))
    return answer(notes_of(descriptor->engine), wanted, count, values);
  if (is(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64)) {
    int engine = -1;
    const auto described = describe_plan(*descriptor, engine);
    return described ? answer(std::vector<std::int64_t>{described->scratch(engine)}, wanted, count, values)
                     : CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
  const CudnnDescriptor *const plan = living_descriptor(plan_handle), *const pack = living_descriptor(pack_handle);
  if (handle == nullptr || plan == nullptr || pack == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  if (!plan->is_finalized || !pack->is_finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  int engine = -1;
  auto described = describe_plan(*plan, engine);
  if (!described || plan->one<cudnnHandle_t>(kPlanHandle) != handle) return CUDNN_STATUS_BAD_PARAM;
  const Pack places(*pack);
  if (!places.is_whole()) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  const cudnnStatus_t placed = described->attention ? place_operands(*described->attention, places)
                                                    : place_operands(*described->convolution, places);
  if (placed != CUDNN_STATUS_SUCCESS) return placed;
  auto job = std::make_unique<Job>(Job{*described, nullptr, std::nullopt, engine == kTensorCores, false});
  if (described->scratch(engine) != 0) {
    const auto given = pack->all<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const auto address = reinterpret_cast<std::uint64_t>(given.empty() ? nullptr : given.front());
    if (!is_device_address(address)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (address % 16 != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    job->scratch = host_address(address);
  }
  const std::string name = described->name(engine);
  const auto rule = faults().hit(Site::kLaunch, name);
  if (rule && rule->action != Action::kFlip && rule->action != Action::kSlow) return CUDNN_STATUS_EXECUTION_FAILED;
  if (rule && rule->action == Action::kFlip) job->flip = rule;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().is_capturing(handle->stream, &capture) != CUDA_SUCCESS) return CUDNN_STATUS_EXECUTION_FAILED;
  const bool is_kept = job->is_kept = capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (driver().launch(handle->stream, name.c_str(), run, job.get()) != CUDA_SUCCESS)
    return CUDNN_STATUS_EXECUTION_FAILED;
  if (is_kept) {
    keep(std::move(job));
  } else {
    (void)job.release();  // run() deletes it, or has by now
  }
  return CUDNN_STATUS_SUCCESS;
}
