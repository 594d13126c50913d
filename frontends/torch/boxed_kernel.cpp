// The kernel for operators without a typed one: the arguments stand on the interpreter's stack and the schema says what
// they are (boxed_values.cpp). It writes the same records as typed_kernel.hpp. Registration of every path is here.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "frontends/torch/boxed_values.hpp"
#include "frontends/torch/kernels.hpp"
#include "frontends/torch/record_function.hpp"
#include "frontends/torch/scout.hpp"
#include "frontends/torch/training_watch.hpp"
#include "frontends/torch/typed_kernel.hpp"
#include "frontends/torch/whole_composites.hpp"

#if __has_include(<c10/core/impl/PyInterpreterHooks.h>)
#include <c10/core/impl/PyInterpreterHooks.h>
inline c10::impl::PyInterpreter* python_interpreter() { return c10::impl::getGlobalPyInterpreter(); }
#else
// torch 2.6 declares it in a header of its Python library that brings in much else.
__attribute__((visibility("default"))) c10::impl::PyInterpreter* getPyInterpreter();
inline c10::impl::PyInterpreter* python_interpreter() { return getPyInterpreter(); }
#endif

namespace crucible::recorder {

namespace {

/// What the framework shuts out while a handler of Python runs: all keys above Python's. It shuts ours out too where
/// our key is above; then the ops that the handler calls would be lost, so we call the handler ourselves.
c10::DispatchKeySet keys_above_python() {
  using K = c10::DispatchKey;
  const c10::DispatchKeySet from_python =
      c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, K::Python) | c10::DispatchKeySet(K::Python);
  return (c10::DispatchKeySet(c10::DispatchKeySet::FULL) - from_python)
      .remove(K::ZeroTensor)
      .remove(K::Conjugate)
      .remove(K::Negative)
      .remove(K::Fake);
}

void boxed_kernel(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

void pass_by(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (watches_for_training() && !keys.has(c10::DispatchKey::Python) && training_goes_on(op))
    return boxed_kernel(op, keys, stack);
  static const c10::DispatchKeySet above_python = keys_above_python();
  const c10::DispatchKeySet below = keys & kKeysBelow;
  c10::impl::PyInterpreter* interpreter = python_interpreter();
  const bool is_ours_to_call = Recorder::instance().is_recording() && interpreter != nullptr &&
                               below.highestPriorityTypeId() == c10::DispatchKey::Python &&
                               !op.hasKernelForDispatchKey(c10::DispatchKey::Python);
  if (!is_ours_to_call) return op.redispatchBoxed(below, stack);
  const c10::impl::ExcludeDispatchKeyGuard guard(above_python);
  (*interpreter)->dispatch(op, stack);
}

/// In inference mode composite operators arrive whole. They are run again with our key on, so that their parts are
/// seen; but for calls that have no parts.
bool is_undecomposed(const Operator& op, c10::DispatchKeySet below, const torch::jit::Stack& stack) {
  return op.composite && !op.handle.hasKernelForDispatchKey(below.highestPriorityTypeId()) &&
         !writes_by_itself(op, torch::jit::last(stack, op.handle.schema().arguments().size()));
}

void boxed_kernel(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & kKeysBelow;
  if (passes_by(keys)) return pass_by(handle, keys, stack);
  const Operator& op = Recorder::instance().operators().find_or_add(handle);
  if (op.control || is_undecomposed(op, below, *stack)) {
    if (op.control || !run_by_operators(handle, below, stack)) handle.redispatchBoxed(below, stack);
    return;
  }
  OpScope scope(op);
  if (!scope.is_open()) [[unlikely]] return pass_by(handle, keys, stack);
  const auto arguments = torch::jit::last(*stack, handle.schema().arguments().size());
  encode_arguments(scope, handle.schema(), arguments);
  std::optional<OpHasher> hasher;
  if (hashes_ops()) [[unlikely]] hasher.emplace(op).keep_written(arguments);
  scope.before_run();
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
  handle.redispatchBoxed(below, stack);
  const auto results = torch::jit::last(*stack, handle.schema().returns().size());
  if (hasher.has_value()) [[unlikely]] scope.keep_hashes(hasher->hash(results));
  if (!scope.after_run()) return;
  encode_results(scope, handle.schema(), results);
  scope.finish();
}

/// For programs whose iterations have to be found: the scout looks at each op first, and may begin or end an iteration.
void scouting_kernel(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & kKeysBelow;
  if (keys.has(c10::DispatchKey::Python)) return pass_by(handle, keys, stack);
  const Operator& op = Recorder::instance().operators().find_or_add(handle);
  if (op.control || is_undecomposed(op, below, *stack)) return handle.redispatchBoxed(below, stack);
  Scout::instance().before_op(op, *stack);
  if (Recorder::instance().is_recording()) return boxed_kernel(handle, keys, stack);
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
  handle.redispatchBoxed(below, stack);
}

/// Collects operators that are registered during a recording; the dispatcher's lock is held while it is told.
class LateOperators final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override { pending.push_back(op.operator_name()); }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}
  std::vector<c10::OperatorName> pending;
};

struct Installed {
  TypedKernels typed;
  std::vector<c10::RegistrationHandleRAII> handles;
  LateOperators* late = nullptr;  // owned by the dispatcher; null where the fallback covers every operator
};
std::unique_ptr<Installed>& installed() {
  static auto* holder = new std::unique_ptr<Installed>;  // never destroyed: the dispatcher may be gone by then
  return *holder;
}


void install_for(const std::vector<c10::OperatorName>& names, Installed& kernels) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : names) {
    const auto op = dispatcher.findOp(name);
    if (op.has_value() && op->hasKernelForDispatchKey(c10::DispatchKey::Fake)) continue;
    kernels.handles.push_back(dispatcher.registerImpl(name, c10::DispatchKey::Fake,
                                                      c10::KernelFunction::makeFromBoxedFunction<&boxed_kernel>(),
                                                      std::nullopt, nullptr, "crucible recorder"));
  }
}

void install_per_op(Installed& kernels) {
  auto& dispatcher = c10::Dispatcher::singleton();
  install_for(dispatcher.getAllOpNames(), kernels);
  auto late = std::make_unique<LateOperators>();
  kernels.late = late.get();
  kernels.handles.push_back(dispatcher.addRegistrationListener(std::move(late)));
  kernels.late->pending.clear();  // it was told of all present ones
}

}  // namespace

const Operator* TypedKernels::find(std::string_view name) {
  const std::size_t dot = name.find('.');
  const c10::OperatorName full("aten::" + std::string(name.substr(0, dot)),
                               dot == std::string_view::npos ? "" : std::string(name.substr(dot + 1)));
  const auto op = c10::Dispatcher::singleton().findSchema(full);
  return op.has_value() ? &Recorder::instance().operators().find_or_add(*op) : nullptr;
}

void TypedKernels::put(const Operator& op, c10::KernelFunction kernel) {
  handles_.push_back(c10::Dispatcher::singleton().registerImpl(op.handle.operator_name(), c10::DispatchKey::Fake,
                                                               std::move(kernel), std::nullopt, nullptr,
                                                               "crucible recorder"));
}

const c10::BoxedKernel& passing_kernel() {
  static const c10::BoxedKernel kernel = c10::BoxedKernel::makeFromFunction<&pass_by>();
  return kernel;
}

std::string install_kernels(Path path) {
  uninstall_kernels();
  use_observers(path == Path::kRecordFunction);
  auto kernels = std::make_unique<Installed>();
  if (path == Path::kRecordFunction) {
    installed() = std::move(kernels);
    return "RecordFunction observers, which only look on";
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  register_whole_composites(kernels->handles);
  std::string fallback = "the boxed fallback on the Fake key";
  if (path == Path::kScout) {
    kernels->handles.push_back(dispatcher.registerFallback(
        c10::DispatchKey::Fake, c10::KernelFunction::makeFromBoxedFunction<&scouting_kernel>(), "crucible recorder"));
    installed() = std::move(kernels);
    return fallback;
  }
  if (path != Path::kPerOp) {
    try {
      kernels->handles.push_back(dispatcher.registerFallback(
          c10::DispatchKey::Fake, c10::KernelFunction::makeFromBoxedFunction<&boxed_kernel>(), "crucible recorder"));
    } catch (const c10::Error&) {
      path = Path::kPerOp;  // a newer framework uses the key itself
    }
  }
  if (path != Path::kBoxed) register_typed_kernels(kernels->typed);
  if (path == Path::kPerOp) {
    install_per_op(*kernels);
    fallback = "a boxed kernel per operator on the Fake key";
  }
  installed() = std::move(kernels);
  return path == Path::kTyped   ? "typed kernels on the Fake key"
         : path == Path::kPerOp ? "typed kernels and " + fallback
                                : fallback;
}

void cover_late_operators() {
  if (installed() == nullptr || installed()->late == nullptr) return;
  install_for(std::exchange(installed()->late->pending, {}), *installed());
}

void uninstall_kernels() { installed().reset(); }

}  // namespace crucible::recorder
