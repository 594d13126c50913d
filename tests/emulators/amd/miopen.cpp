// libMIOpen.so.1 as far as a plugin asks for convolutions in immediate mode: it computes on the memory and the streams
// of the emulated runtime, which it finds beside itself. Its declarations are written from AMD's documentation, a
// second time after the plugin's.
//
// Faults: init(miopenCreateWithStream), query(NAME) for solutions, query(attribute_N) for attributes that the library
// does not know, compile(NAME), launch(NAME); NAME is as conv_f32_forward_2x3x8x8_4x3x3x3 (forward, data, filter; x and
// weight). Solutions, best first: one that adds in any order (conv_atomic_f32_...), unless it has to be deterministic;
// one that rounds operands (conv_tf32_..., conv_alt16_...), unless the attributes forbid it; one that wants scratch
// where sums are of 256 products and more; one that wants none.
//
// Stricter than the library: descriptors are set in their order and live as long as they are used, tensors are dense in
// NCHW or NHWC, a solution runs what it was given for, a workspace that is too small or on the host is refused, as is a
// handle on the default stream.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulators/amd/runtime_beside.hpp"
#include "tests/emulators/core/convolution.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/memory.hpp"

using namespace crucible::emulator;

struct miopenTensorDescriptor {
  bool is_set = false;
  ElementType type = ElementType::kF32;
  ConvolutionOperand shape;
};

struct miopenConvolutionDescriptor {
  bool is_set = false;
  Convolution shape;
  int groups = 1, alternative_f16 = -1;
  bool is_deterministic = false, is_pedantic = false;
};

struct miopenConvSolution_t {
  float time;
  std::size_t workspace_size;
  std::uint64_t solution_id;
  int algorithm;
};

namespace {

constexpr int kSuccess = 0, kNotInitialized = 1, kInvalidValue = 2, kBadParm = 3, kAllocFailed = 4, kInternalError = 5,
              kNotImplemented = 6, kUnknownError = 7;
constexpr int kHalf = 0, kFloat = 1, kBFloat16 = 5;
constexpr int kAlternativeF16 = 0, kDeterministic = 1, kMathType = 3;
constexpr std::int64_t kScratchFromLength = 256;
constexpr std::size_t kScratchBytes = 4096;

enum class Variant { kAnyOrder, kRounded, kScratch, kPlain };

/// A problem as it was described.
struct Problem {
  Convolution convolution;
  std::vector<Variant> variants;
  std::string text;  // differs where anything does
};

struct Given {
  std::string problem;
  Variant variant;
};

}  // namespace

struct miopenHandle {
  hipStream_t stream = nullptr;
  std::map<std::uint64_t, Given> given;
};

namespace {

template <class T>
class Living {
 public:
  T* add() {
    const std::lock_guard lock(mutex_);
    return *all_.insert(new T).first;
  }
  bool has(T* object) {
    const std::lock_guard lock(mutex_);
    return all_.contains(object);
  }
  bool remove(T* object) {
    const std::lock_guard lock(mutex_);
    if (all_.erase(object) == 0) return false;
    delete object;
    return true;
  }

 private:
  std::mutex mutex_;
  std::set<T*> all_;
};

template <class T>
Living<T>& living() {
  static auto& all = *new Living<T>;
  return all;
}

/// Dense, in one order of the two.
bool is_dense(const ConvolutionOperand& operand, const std::array<std::size_t, 4>& innermost_first) {
  std::int64_t stride = 1;
  for (const std::size_t i : innermost_first) {
    if (operand.strides[i] != stride) return false;
    stride *= operand.sizes[i];
  }
  return true;
}

bool is_dense(const Convolution& c, const std::array<std::size_t, 4>& innermost_first) {
  return is_dense(c.x, innermost_first) && is_dense(c.weight, innermost_first) && is_dense(c.y, innermost_first);
}

std::vector<Variant> variants_of(const Convolution& c, const miopenConvolutionDescriptor& how) {
  std::vector<Variant> variants;
  if (!is_dense(c, {3, 2, 1, 0}) && !is_dense(c, {1, 3, 2, 0})) return variants;
  if (how.groups > 1 && (c.dilation[0] > 1 || c.dilation[1] > 1)) return variants;
  const bool is_gradient = c.kind != ConvolutionKind::kForward;
  if (!how.is_deterministic) variants.push_back(Variant::kAnyOrder);
  if (c.type == ElementType::kF32 && !how.is_pedantic) variants.push_back(Variant::kRounded);
  if (c.type == ElementType::kF16 && (how.alternative_f16 == 1 || (how.alternative_f16 == -1 && is_gradient)))
    variants.push_back(Variant::kRounded);
  variants.insert(variants.end(), {Variant::kScratch, Variant::kPlain});
  return variants;
}

std::string name_of(const Convolution& c, Variant variant) {
  std::string name = c.name();
  if (variant == Variant::kAnyOrder) name.insert(5, "atomic_");
  if (variant == Variant::kRounded) name.replace(5, 3, c.type == ElementType::kF32 ? "tf32" : "alt16");
  return name;
}

std::size_t scratch_of(const Convolution& c, Variant variant) {
  return variant != Variant::kPlain && c.sum_length() >= kScratchFromLength ? kScratchBytes : 0;
}

/// Operands in the order of the kind's functions. Nothing for what is none.
std::optional<Problem> describe(ConvolutionKind kind, miopenTensorDescriptor* first, miopenTensorDescriptor* second,
                                miopenConvolutionDescriptor* how, miopenTensorDescriptor* result) {
  for (miopenTensorDescriptor* const tensor : {first, second, result}) {
    if (!living<miopenTensorDescriptor>().has(tensor) || !tensor->is_set || tensor->type != first->type)
      return std::nullopt;
  }
  if (!living<miopenConvolutionDescriptor>().has(how) || !how->is_set) return std::nullopt;
  Problem problem;
  Convolution& c = problem.convolution = how->shape;
  c.kind = kind;
  c.type = first->type;
  const bool is_forward = kind == ConvolutionKind::kForward, is_data = kind == ConvolutionKind::kBackwardData;
  c.x = (is_data ? result : second)->shape;
  c.weight = (is_forward ? first : is_data ? second : result)->shape;
  c.y = (is_forward ? result : first)->shape;
  if (c.x.sizes[1] % c.weight.sizes[1] != 0 || !c.fits() || c.groups() != how->groups) return std::nullopt;
  problem.variants = variants_of(c, *how);
  problem.text = c.name();
  for (const auto& numbers : {c.stride, c.padding, c.dilation})
    problem.text += " " + std::to_string(numbers[0]) + "x" + std::to_string(numbers[1]);
  for (const ConvolutionOperand* operand : {&c.x, &c.weight, &c.y}) {
    for (const std::int64_t stride : operand->strides) problem.text += " " + std::to_string(stride);
  }
  problem.text += " of " + std::to_string(problem.variants.size());
  return problem;
}

int count_solutions(miopenHandle* handle, const std::optional<Problem>& problem, std::size_t* count) {
  if (!living<miopenHandle>().has(handle) || !problem || count == nullptr) return kBadParm;
  const auto rule = faults().hit(Site::kQuery, problem->convolution.name());
  if (rule && rule->action == Action::kFail) return kNotImplemented;
  if (rule && rule->action == Action::kOom) return kAllocFailed;
  if (rule) return kInternalError;
  *count = problem->variants.size();
  return kSuccess;
}

/// The same solution of the same problem has the same number.
std::uint64_t give(miopenHandle& handle, const Problem& problem, Variant variant) {
  for (const auto& [id, given] : handle.given) {
    if (given.problem == problem.text && given.variant == variant) return id;
  }
  const std::uint64_t id = 1000 + handle.given.size();
  handle.given[id] = {problem.text, variant};
  return id;
}

int list_solutions(miopenHandle* handle, const std::optional<Problem>& problem, std::size_t most, std::size_t* count,
                   miopenConvSolution_t* solutions) {
  if (!living<miopenHandle>().has(handle) || !problem || count == nullptr || solutions == nullptr) return kBadParm;
  *count = 0;
  for (const Variant variant : problem->variants) {
    if (*count == most) break;
    solutions[*count] = {0.5f * static_cast<float>(*count + 1), scratch_of(problem->convolution, variant),
                         give(*handle, *problem, variant), 1};
    ++*count;
  }
  return kSuccess;
}

/// Null unless the handle gave that solution for this problem.
const Given* given_for(miopenHandle* handle, const std::optional<Problem>& problem, std::uint64_t id) {
  if (!living<miopenHandle>().has(handle) || !problem) return nullptr;
  const auto found = handle->given.find(id);
  return found == handle->given.end() || found->second.problem != problem->text ? nullptr : &found->second;
}

int compile(miopenHandle* handle, const std::optional<Problem>& problem, std::uint64_t id) {
  const Given* const given = given_for(handle, problem, id);
  if (given == nullptr) return kInvalidValue;
  return faults().hit(Site::kCompile, name_of(problem->convolution, given->variant)) ? kUnknownError : kSuccess;
}

struct Job {
  Convolution convolution;
  char* scratch = nullptr;
  std::optional<Rule> flip;
};

const ConvolutionOperand& result_of(const Convolution& c) {
  return c.kind == ConvolutionKind::kForward ? c.y : c.kind == ConvolutionKind::kBackwardData ? c.x : c.weight;
}

void run(void* data) {
  const std::unique_ptr<Job> job(static_cast<Job*>(data));
  if (job->scratch != nullptr) std::memset(job->scratch, 0xee, kScratchBytes);  // whoever else uses it sees it
  convolve(job->convolution);
  if (job->flip) result_of(job->convolution).data[job->flip->byte] ^= static_cast<char>(1 << job->flip->bit);
}

struct Workspace {
  void* address;
  std::size_t bytes;
};

bool place(ConvolutionOperand& operand, const void* address) {
  if (!is_device_address(reinterpret_cast<std::uint64_t>(address))) return false;
  operand.data = host_address(reinterpret_cast<std::uint64_t>(address));
  return true;
}

const Runtime& hip();

int launch(miopenHandle* handle, const std::optional<Problem>& problem, const void* first, const void* second,
           const void* result, Workspace workspace, std::uint64_t id) {
  const Given* const given = given_for(handle, problem, id);
  if (given == nullptr) return kInvalidValue;
  if (handle->stream == nullptr) return kNotInitialized;
  auto job = std::make_unique<Job>(Job{problem->convolution, nullptr, std::nullopt});
  Convolution& c = job->convolution;
  const bool is_forward = c.kind == ConvolutionKind::kForward, is_data = c.kind == ConvolutionKind::kBackwardData;
  if (!place(c.x, is_data ? result : second) || !place(c.weight, is_forward ? first : is_data ? second : result) ||
      !place(c.y, is_forward ? result : first))
    return kBadParm;
  if (const std::size_t wanted = scratch_of(c, given->variant)) {
    const auto address = reinterpret_cast<std::uint64_t>(workspace.address);
    if (workspace.bytes < wanted || !is_device_address(address)) return kInvalidValue;
    job->scratch = host_address(address);
  }
  const auto rule = faults().hit(Site::kLaunch, name_of(c, given->variant));
  if (rule && rule->action == Action::kOom) return kAllocFailed;
  if (rule && rule->action != Action::kFlip && rule->action != Action::kSlow) return kInternalError;
  if (rule && rule->action == Action::kFlip) job->flip = rule;
  if (hip().launch(handle->stream, "convolution", run, job.get()) != hipSuccess) return kUnknownError;
  (void)job.release();  // run() deletes it, or has by now
  return kSuccess;
}

}  // namespace

extern "C" {

int miopenCreateWithStream(miopenHandle** handle, hipStream_t stream) {
  if (handle == nullptr) return kBadParm;
  if (!hip().has_device() || faults().hit(Site::kInit, "miopenCreateWithStream")) return kNotInitialized;
  *handle = living<miopenHandle>().add();
  (*handle)->stream = stream;
  return kSuccess;
}

int miopenDestroy(miopenHandle* handle) { return living<miopenHandle>().remove(handle) ? kSuccess : kBadParm; }

int miopenSetStream(miopenHandle* handle, hipStream_t stream) {
  if (!living<miopenHandle>().has(handle)) return kBadParm;
  handle->stream = stream;
  return kSuccess;
}

int miopenGetVersion(std::size_t* major, std::size_t* minor, std::size_t* patch) {
  if (major != nullptr) *major = 3;
  if (minor != nullptr) *minor = 4;
  if (patch != nullptr) *patch = 0;
  return kSuccess;
}

const char* miopenGetErrorString(int status) {
  const char* const names[] = {"miopenStatusSuccess",        "miopenStatusNotInitialized", "miopenStatusInvalidValue",
                               "miopenStatusBadParm",        "miopenStatusAllocFailed",    "miopenStatusInternalError",
                               "miopenStatusNotImplemented", "miopenStatusUnknownError"};
  return status >= 0 && status < 8 ? names[status] : "Unknown error status";
}

int miopenCreateTensorDescriptor(miopenTensorDescriptor** tensor) {
  if (tensor == nullptr) return kBadParm;
  *tensor = living<miopenTensorDescriptor>().add();
  return kSuccess;
}

int miopenSetTensorDescriptor(miopenTensorDescriptor* tensor, int type, int rank, const int* sizes,
                              const int* strides) {
  if (!living<miopenTensorDescriptor>().has(tensor) || rank != 4 || sizes == nullptr || strides == nullptr)
    return kBadParm;
  if (std::any_of(sizes, sizes + 4, [](int size) { return size < 1; })) return kBadParm;
  if (type != kHalf && type != kFloat && type != kBFloat16) return kNotImplemented;
  tensor->type = type == kHalf ? ElementType::kF16 : type == kFloat ? ElementType::kF32 : ElementType::kBF16;
  std::copy_n(sizes, 4, tensor->shape.sizes.begin());
  std::copy_n(strides, 4, tensor->shape.strides.begin());
  tensor->is_set = true;
  return kSuccess;
}

int miopenDestroyTensorDescriptor(miopenTensorDescriptor* tensor) {
  return living<miopenTensorDescriptor>().remove(tensor) ? kSuccess : kBadParm;
}

int miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor** how) {
  if (how == nullptr) return kBadParm;
  *how = living<miopenConvolutionDescriptor>().add();
  return kSuccess;
}

/// Groups and attributes are what they were before they are set.
int miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor* how, int rank, const int* padding, const int* stride,
                                      const int* dilation, int mode) {
  if (!living<miopenConvolutionDescriptor>().has(how) || rank != 2 || padding == nullptr || stride == nullptr ||
      dilation == nullptr || mode != 0)
    return kBadParm;
  *how = {};
  std::copy_n(padding, 2, how->shape.padding.begin());
  std::copy_n(stride, 2, how->shape.stride.begin());
  std::copy_n(dilation, 2, how->shape.dilation.begin());
  how->is_set = true;
  return kSuccess;
}

int miopenSetConvolutionGroupCount(miopenConvolutionDescriptor* how, int groups) {
  if (!living<miopenConvolutionDescriptor>().has(how) || !how->is_set || groups < 1) return kBadParm;
  how->groups = groups;
  return kSuccess;
}

int miopenSetConvolutionAttribute(miopenConvolutionDescriptor* how, int attribute, int value) {
  if (!living<miopenConvolutionDescriptor>().has(how) || !how->is_set) return kBadParm;
  if (faults().hit(Site::kQuery, "attribute_" + std::to_string(attribute))) return kBadParm;
  if (attribute == kAlternativeF16) {
    how->alternative_f16 = value;
  } else if (attribute == kDeterministic) {
    how->is_deterministic = value == 1;
  } else if (attribute == kMathType) {
    how->is_pedantic = value == 1;
  } else {
    return kBadParm;
  }
  return kSuccess;
}

int miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor* how) {
  return living<miopenConvolutionDescriptor>().remove(how) ? kSuccess : kBadParm;
}

#define CRUCIBLE_EMULATED_KIND(Kind, kind)                                                                            \
  int miopenConvolution##Kind##GetSolutionCount(miopenHandle* handle, miopenTensorDescriptor* first,                  \
                                                miopenTensorDescriptor* second, miopenConvolutionDescriptor* how,     \
                                                miopenTensorDescriptor* result, std::size_t* count) {                 \
    return count_solutions(handle, describe(kind, first, second, how, result), count);                                \
  }                                                                                                                   \
  int miopenConvolution##Kind##GetSolution(miopenHandle* handle, miopenTensorDescriptor* first,                       \
                                           miopenTensorDescriptor* second, miopenConvolutionDescriptor* how,          \
                                           miopenTensorDescriptor* result, std::size_t most, std::size_t* count,      \
                                           miopenConvSolution_t* solutions) {                                         \
    return list_solutions(handle, describe(kind, first, second, how, result), most, count, solutions);                \
  }                                                                                                                   \
  int miopenConvolution##Kind##CompileSolution(miopenHandle* handle, miopenTensorDescriptor* first,                   \
                                               miopenTensorDescriptor* second, miopenConvolutionDescriptor* how,      \
                                               miopenTensorDescriptor* result, std::uint64_t id) {                    \
    return compile(handle, describe(kind, first, second, how, result), id);                                           \
  }                                                                                                                   \
  int miopenConvolution##Kind##Immediate(miopenHandle* handle, miopenTensorDescriptor* first, const void* first_data, \
                                         miopenTensorDescriptor* second, const void* second_data,                     \
                                         miopenConvolutionDescriptor* how, miopenTensorDescriptor* result,            \
                                         void* result_data, void* workspace, std::size_t bytes, std::uint64_t id) {   \
    return launch(handle, describe(kind, first, second, how, result), first_data, second_data, result_data,           \
                  {workspace, bytes}, id);                                                                            \
  }

CRUCIBLE_EMULATED_KIND(Forward, ConvolutionKind::kForward)
CRUCIBLE_EMULATED_KIND(BackwardData, ConvolutionKind::kBackwardData)
CRUCIBLE_EMULATED_KIND(BackwardWeights, ConvolutionKind::kBackwardFilter)

}  // extern "C"

namespace {

const Runtime& hip() {
  static const Runtime found = find_runtime_beside(reinterpret_cast<const void*>(&miopenDestroy));
  return found;
}

}  // namespace
