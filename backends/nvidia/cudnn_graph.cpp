// Execution plans of cuDNN's graphs: see cudnn_graph.hpp.
#include "backends/nvidia/cudnn_graph.hpp"

#include <algorithm>
#include <optional>

#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::int64_t kMostEngines = 64;  // of one heuristic
constexpr std::uint64_t kShareOfMemory = 16;
constexpr std::uint32_t kF32 = 8;  // DType, part of the ABI

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
    cudnn.check(cudnn.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, &count, places),
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
  engines.erase(engines.begin() + std::min<std::int64_t>(count, static_cast<std::int64_t>(engines.size())),
                engines.end());
  return engines;
}

enum class Engine : std::uint8_t { kForbidden, kAllowed, kTensorCores };

/// Allowed is what gives the same bits in every run, with sums in f32 and operands as they are: rounded to TF32 only
/// where that is allowed.
Engine judge(const Cudnn& cudnn, const Descriptor& configuration, std::uint32_t dtype, bool allows_tf32) {
  const Descriptor engine(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
  cudnnBackendDescriptor_t place = engine.get();
  std::int64_t count = 0;
  cudnn.check(cudnn.cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &place),
              "cudnnBackendGetAttribute of an engine's configuration");
  std::array<int, 64> notes = {};  // more than any version has
  cudnn.check(cudnn.cudnnBackendGetAttribute(place, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                             static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute of an engine");
  Engine judged = Engine::kAllowed;
  for (std::size_t i = 0; i < std::min(notes.size(), static_cast<std::size_t>(count)); ++i) {
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
        notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
        notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
      return Engine::kForbidden;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) judged = Engine::kTensorCores;
  }
  return judged == Engine::kTensorCores && dtype == kF32 && !allows_tf32 ? Engine::kForbidden : judged;
}

/// The plan by one engine, when it can be built and fits.
bool try_engine(const Cudnn& cudnn, cudnnHandle_t handle, const Descriptor& engine, const CudnnNeeds& needs,
                CudnnPlan& call) {
  Descriptor plan(cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "an execution plan");
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
  if (plan.try_finalize() != CUDNN_STATUS_SUCCESS)
    return false;  // the next may do; whatever it was, there is no plan by this one
  std::int64_t bytes = 0, count = 0;
  cudnn.check(cudnn.cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                             &count, &bytes),
              "cudnnBackendGetAttribute of an execution plan");
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) > needs.most_scratch) return false;
  call.scratch_bytes = static_cast<std::uint64_t>(bytes);
  call.plan.push_back(std::move(plan));
  return true;
}

}  // namespace

int cudnn_type_of(std::uint32_t dtype) {
  return dtype == 6 ? CUDNN_DATA_HALF : dtype == 7 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

bool find_plan(const Cudnn& cudnn, cudnnHandle_t handle, std::vector<Descriptor> operations, const CudnnNeeds& needs,
               CudnnPlan& call) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations) handles.push_back(operation.get());
  Descriptor graph(cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
            handles.data());
  graph.finalize();
  // Engines without tensor cores take f16 and bf16 too, ten times slower: all with them come first, in the order of the
  // heuristics, and only then the others. Of f32 the order of the heuristics is all that counts.
  const bool prefers_tensor_cores = needs.dtype != kF32;
  std::vector<std::pair<Descriptor*, Descriptor>> others;
  std::array<std::optional<Descriptor>, 2> heuristics;
  const auto take = [&](Descriptor& heuristic, Descriptor& engine) {
    if (!try_engine(cudnn, handle, engine, needs, call)) return false;
    for (Descriptor& operation : operations) call.parts.push_back(std::move(operation));
    call.parts.push_back(std::move(engine));
    call.parts.push_back(std::move(heuristic));
    call.parts.push_back(std::move(graph));
    return true;
  };
  std::size_t asked = 0;
  for (const int mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor& heuristic = heuristics[asked++].emplace(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
    for (Descriptor& engine : propose(cudnn, heuristic, graph, mode)) {
      const Engine judged = judge(cudnn, engine, needs.dtype, needs.allows_tf32);
      if (judged == Engine::kAllowed && prefers_tensor_cores) {
        others.emplace_back(&heuristic, std::move(engine));
      } else if (judged != Engine::kForbidden && take(heuristic, engine)) {
        return true;
      }
    }
  }
  for (auto& [heuristic, engine] : others) {
    if (take(*heuristic, engine)) return true;
  }
  call.parts.clear();
  return false;
}

std::uint64_t most_dnn_scratch(std::uint64_t memory_bytes) {
  return std::min(options().get_u64("dnn_workspace_mib") << 20, memory_bytes / kShareOfMemory);
}

const CudnnPlan& CudnnPlans::find(const std::string& key, const std::function<std::unique_ptr<CudnnPlan>()>& make) {
  std::unique_ptr<const CudnnPlan>& plan = plans_[key];
  if (plan == nullptr) plan = make();
  if (!plan->refusal.empty()) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, plan->refusal);
  return *plan;
}

const CudnnPlan& CudnnPlans::fitting(const std::function<const CudnnPlan&(std::uint64_t limit)>& find,
                                     std::uint64_t most, std::uint64_t scratch, std::uint64_t scratch_bytes) {
  if (scratch_bytes != 0 && scratch % kScratchAlignment != 0) scratch_bytes = 0;
  try {
    const CudnnPlan& call = find(most);
    if (call.scratch_bytes <= scratch_bytes) return call;
  } catch (const sdk::Failure& failure) {
    if (failure.code() != CRUCIBLE_E_UNSUPPORTED) throw;
  }
  return find(scratch_bytes);
}

void execute(const Cudnn& cudnn, cudnnHandle_t handle, const CudnnPlan& call, const std::vector<std::int64_t>& ids,
             const std::vector<void*>& places, void* scratch, CUstream stream, const std::string& what) {
  Descriptor pack(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "addresses");
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(ids.size()), ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(places.size()),
           places.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize();
  cudnn.check(cudnn.cudnnSetStream(handle, stream), "cudnnSetStream");
  cudnn.check(cudnn.cudnnBackendExecute(handle, call.get(), pack.get()), "cudnnBackendExecute of " + what);
}

cudnnHandle_t start_cudnn(const Cudnn& cudnn, const std::string& device) {
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = cudnn.cudnnCreate(&handle);
  if (status == CUDNN_STATUS_SUCCESS) return handle;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     cudnn.describe() + " (" + cudnn.file + ") does not start on " + device +
                         ": cudnnCreate: " + cudnn.cudnnGetErrorString(status),
                     {{"vendor.code", std::to_string(status)}, {"where", cudnn.file}});
}

}  // namespace crucible_nvidia
