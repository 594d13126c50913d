// Convolutions by MIOpen: see miopen.hpp. Immediate mode gives solutions for a problem, best first, without running
// any; the first whose workspace fits and that can be compiled is taken. The descriptors of a call live as long as it
// does.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/amd/device.hpp"
#include "backends/amd/memory.hpp"
#include "backends/amd/miopen.hpp"
#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr std::uint64_t kScratchAlignment = 256;  // the host's planner gives it
constexpr std::size_t kMostSolutions = 256;       // of one problem

/// A descriptor of the library, given back with `Destroy`, a member of Miopen.
template <class Handle, auto Create, auto Destroy>
class Described {
 public:
  explicit Described(const Miopen& miopen) : miopen_(miopen) {
    miopen.check((miopen.*Create)(&handle_), "creating a descriptor");
  }
  ~Described() {
    if (handle_ != nullptr) (void)(miopen_.*Destroy)(handle_);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  Handle get() const { return handle_; }

 private:
  const Miopen& miopen_;
  Handle handle_ = nullptr;
};
using Tensor =
    Described<miopenTensorDescriptor_t, &Miopen::miopenCreateTensorDescriptor, &Miopen::miopenDestroyTensorDescriptor>;
using How = Described<miopenConvolutionDescriptor_t, &Miopen::miopenCreateConvolutionDescriptor,
                      &Miopen::miopenDestroyConvolutionDescriptor>;

/// The functions of a kind, all of one form, and the views that they want in their order. The description has them in
/// the same order, but for the forward one, whose weight comes first.
struct Functions {
  decltype(Miopen::miopenConvolutionForwardGetSolutionCount) count;
  decltype(Miopen::miopenConvolutionForwardGetSolution) solutions;
  decltype(Miopen::miopenConvolutionForwardCompileSolution) compile;
  decltype(Miopen::miopenConvolutionForwardImmediate) run;
  int first, second;
};
#define CRUCIBLE_MIOPEN_KIND(Kind, first, second)                                                               \
  Functions {                                                                                                   \
    miopen.miopenConvolution##Kind##GetSolutionCount, miopen.miopenConvolution##Kind##GetSolution,              \
        miopen.miopenConvolution##Kind##CompileSolution, miopen.miopenConvolution##Kind##Immediate, first, second \
  }
Functions functions_of(const Miopen& miopen, std::uint32_t kind) {
  if (kind == CRUCIBLE_LIB_CONV2D) return CRUCIBLE_MIOPEN_KIND(Forward, 1, 0);
  if (kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT) return CRUCIBLE_MIOPEN_KIND(BackwardData, 0, 1);
  return CRUCIBLE_MIOPEN_KIND(BackwardWeights, 0, 1);
}
#undef CRUCIBLE_MIOPEN_KIND

/// DType's numbers, which are part of the ABI.
int type_of(std::uint32_t dtype) { return dtype == 6 ? miopenHalf : dtype == 7 ? miopenBFloat16 : miopenFloat; }

template <std::size_t kCount>
std::array<int, kCount> narrow(const std::array<std::int64_t, kCount>& numbers) {
  std::array<int, kCount> result;
  std::ranges::transform(numbers, result.begin(), [](std::int64_t number) {
    return static_cast<int>(number);
  });  // read_convolution() has checked them
  return result;
}

void set(const Miopen& miopen, const Tensor& tensor, const sdk::ConvolutionTensor& described, sdk::DenseLayout layout,
         std::uint32_t dtype) {
  const auto sizes = narrow(described.sizes), strides = narrow(sdk::dense_strides(described.sizes, layout));
  miopen.check(miopen.miopenSetTensorDescriptor(tensor.get(), type_of(dtype), 4, sizes.data(), strides.data()),
               "miopenSetTensorDescriptor");
}

/// The same bits in every run, and operands as they are: f16 is not rounded to bf16, which gfx90a does in gradients
/// unless it is told, nor f32 to less. A library that refuses the attribute for the latter is older than that.
void set(const Miopen& miopen, const How& how, const sdk::Convolution& c) {
  const auto padding = narrow(c.padding), stride = narrow(c.stride), dilation = narrow(c.dilation);
  miopen.check(miopen.miopenInitConvolutionNdDescriptor(how.get(), 2, padding.data(), stride.data(), dilation.data(),
                                                        miopenConvolution),
               "miopenInitConvolutionNdDescriptor");
  miopen.check(miopen.miopenSetConvolutionGroupCount(how.get(), static_cast<int>(c.groups)),
               "miopenSetConvolutionGroupCount");
  miopen.check(miopen.miopenSetConvolutionAttribute(how.get(), MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1),
               "miopenSetConvolutionAttribute of deterministic solutions");
  miopen.check(miopen.miopenSetConvolutionAttribute(how.get(), MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 0),
               "miopenSetConvolutionAttribute of f16 as it is");
  const miopenStatus_t status =
      miopen.miopenSetConvolutionAttribute(how.get(), MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, miopenMathPedantic);
  if (status != miopenStatusBadParm) miopen.check(status, "miopenSetConvolutionAttribute of f32 as it is");
}

[[noreturn]] void decline(const std::string& reason) {
  throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "convolution: " + reason);
}

}  // namespace

struct Convolutions::Call {
  Call(const Miopen& miopen, std::uint32_t kind)
      : x(miopen), weight(miopen), y(miopen), how(miopen), functions(functions_of(miopen, kind)) {}
  Tensor x, weight, y;
  How how;
  Functions functions;
  std::uint64_t solution = 0, scratch_bytes = 0;
  std::string refusal;  // why there is none

  miopenTensorDescriptor_t tensor(const sdk::Convolution& c, int view) const {
    return c.x.view == view ? x.get() : c.weight.view == view ? weight.get() : y.get();
  }
};

Convolutions::Convolutions(crucible_device& device, const Miopen& miopen) : miopen_(miopen) {
  most_scratch_ = options().get_u64("dnn_workspace_mib") << 20;
  const auto refuse = [&](const std::string& why, miopenStatus_t status) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       miopen.describe() + " (" + miopen.file + ") " + why + ": " + miopen.miopenGetErrorString(status),
                       {{"vendor.code", std::to_string(status)}, {"where", miopen.file}});
  };
  const How how(miopen);
  const std::array<int, 2> zeros = {0, 0}, ones = {1, 1};
  miopen.check(
      miopen.miopenInitConvolutionNdDescriptor(how.get(), 2, zeros.data(), ones.data(), ones.data(), miopenConvolution),
      "miopenInitConvolutionNdDescriptor");
  const miopenStatus_t told =
      miopen.miopenSetConvolutionAttribute(how.get(), MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1);
  if (told != miopenStatusSuccess)
    refuse("cannot be told to be deterministic, a newer one can: miopenSetConvolutionAttribute", told);
  const miopenStatus_t started = miopen.miopenCreateWithStream(&handle_, device.stream.get());
  if (started != miopenStatusSuccess)
    refuse("does not start on " + device.facts.id + ": miopenCreateWithStream", started);
}

Convolutions::~Convolutions() {
  calls_.clear();
  if (handle_ != nullptr) (void)miopen_.miopenDestroy(handle_);
}

std::unique_ptr<Convolutions::Call> Convolutions::make(const sdk::Convolution& c, std::uint64_t most_scratch) const {
  const sdk::DenseLayout layout = sdk::dense_layout(c);
  if (layout == sdk::DenseLayout::kNone)
    decline("MIOpen takes dense tensors alone, all in the order NCHW or all in NHWC");
  if (c.keeps_f32) decline("MIOpen rounds its results to the operands' type");
  if (c.groups > 1 && (c.dilation[0] > 1 || c.dilation[1] > 1)) decline("MIOpen takes no dilation of groups");
  auto call = std::make_unique<Call>(miopen_, c.kind);
  set(miopen_, call->x, c.x, layout, c.dtype);
  set(miopen_, call->weight, c.weight, layout, c.dtype);
  set(miopen_, call->y, c.y, layout, c.dtype);
  set(miopen_, call->how, c);
  const Functions& of = call->functions;
  const auto first = call->tensor(c, of.first), second = call->tensor(c, of.second), result = call->tensor(c, 2);
  const auto is_none = [&](miopenStatus_t status) {
    return status == miopenStatusNotImplemented || status == miopenStatusUnsupportedOp;
  };
  std::size_t count = 0;
  miopenStatus_t status = of.count(handle_, first, second, call->how.get(), result, &count);
  if (!is_none(status)) miopen_.check(status, "the count of solutions of " + c.shape());
  std::vector<miopenConvSolution_t> solutions(std::min(count, kMostSolutions));
  if (!solutions.empty()) {
    status = of.solutions(handle_, first, second, call->how.get(), result, solutions.size(), &count, solutions.data());
    if (!is_none(status)) miopen_.check(status, "the solutions of " + c.shape());
    solutions.resize(is_none(status) ? 0 : std::min(count, solutions.size()));
  }
  for (const miopenConvSolution_t& solution : solutions) {
    if (solution.workspace_size > most_scratch) continue;
    // The next may do; whatever it was, nothing is done by this one.
    if (of.compile(handle_, first, second, call->how.get(), result, solution.solution_id) != miopenStatusSuccess)
      continue;
    call->solution = solution.solution_id;
    call->scratch_bytes = solution.workspace_size;
    return call;
  }
  call->refusal = "convolution: " + miopen_.describe() + " has no solution for " + c.shape() + " with " +
                  std::to_string(most_scratch) + " bytes of workspace";
  return call;
}

const Convolutions::Call& Convolutions::find(const sdk::Convolution& c, std::uint64_t most_scratch) {
  std::unique_ptr<const Call>& call = calls_[c.shape() + " scratch " + std::to_string(most_scratch)];
  if (call == nullptr) call = make(c, most_scratch);
  if (!call->refusal.empty()) throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, call->refusal);
  return *call;
}

std::uint64_t Convolutions::scratch_bytes(const sdk::Convolution& c) {
  const std::lock_guard lock(mutex_);
  return find(c, most_scratch_).scratch_bytes;
}

/// What claim() chose, unless the scratch is smaller than it was told, or lies badly: then what fits.
const Convolutions::Call& Convolutions::prepare(const sdk::Convolution& c, std::uint64_t scratch_address,
                                                std::uint64_t scratch_bytes) {
  const std::lock_guard lock(mutex_);
  if (scratch_address % kScratchAlignment != 0) scratch_bytes = 0;
  const Call& call = find(c, most_scratch_);
  return call.scratch_bytes <= scratch_bytes ? call : find(c, scratch_bytes);
}

void Convolutions::enqueue(const Call& call, const sdk::Convolution& c, const std::uint64_t* addresses,
                           hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto place = [&](int view) {
    return at(addresses[view] + static_cast<std::uint64_t>(c.tensor(view).offset) * c.element_bytes(view));
  };
  const Functions& of = call.functions;
  void* const scratch = call.scratch_bytes == 0 ? nullptr : at(addresses[3]);
  miopen_.check(miopen_.miopenSetStream(handle_, stream), "miopenSetStream");
  miopen_.check(of.run(handle_, call.tensor(c, of.first), place(of.first), call.tensor(c, of.second), place(of.second),
                       call.how.get(), call.tensor(c, 2), place(2), scratch, call.scratch_bytes, call.solution),
                "MIOpen's " + c.shape());
}

}  // namespace crucible_amd
