// What an iteration has beyond its ops: the outputs that a module gave back, and the generators' states at its start.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>
#include <utility>

#include "frontends/torch/op_scope.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

namespace {

/// True for tensors whose elements can be copied by plain ops: strided, of one storage, no subclass.
bool has_plain_elements(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_meta() && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor() &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch() && !tensor.key_set().has(c10::DispatchKey::NestedTensor);
}

}  // namespace

void Recorder::add_output(std::string name, const at::Tensor& tensor) {
  if (!is_recording() || !tensor.defined()) return;
  if (!has_plain_elements(tensor)) {
    const Locked locked(lock_, me());
    return count_not_recorded("outputs that are no plain tensors", kNoSite);
  }
  OutputBytes output;
  output.name = std::move(name);
  output.tensor.dtype = dtype_of(tensor.scalar_type());
  output.tensor.offset = tensor.storage_offset();
  output.tensor.sizes = tensor.sizes().vec();
  output.tensor.strides = tensor.strides().vec();
  const Locked locked(lock_, me());
  const StorageTable::Slot* slot = state_->storages.find(tensor.storage().unsafeGetStorageImpl());
  // What no recorded op has used has no storage in the file; its bytes are there all the same.
  output.tensor.storage = slot == nullptr || slot->size_bytes == kUntold ? kNothing : slot->id;
  output.sequence = state_->next_sequence;
  output.kept = keep(tensor);
  state_->open.outputs.push_back(std::move(output));
}

void Recorder::note_generators() {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard held(generator.mutex());
  // Asking for the state takes some ten microseconds; most programs draw nothing in most iterations.
  auto& cpu = *generator.get<at::CPUGeneratorImpl>();
  GeneratorMemory& known = state_->generator;
  GeneratorMemory now{cpu.engine().data(), cpu.next_float_normal_sample(), cpu.next_double_normal_sample(),
                      known.bytes};
  const bool is_known = !known.bytes.empty() && now.engine.seed_ == known.engine.seed_ &&
                        now.engine.left_ == known.engine.left_ && now.engine.seeded_ == known.engine.seeded_ &&
                        now.engine.next_ == known.engine.next_ && now.next_float == known.next_float &&
                        now.next_double == known.next_double && now.engine.state_ == known.engine.state_;
  if (!is_known) {
    now.bytes = state_->snapshots.copy_tensor(generator.get_state());
    known = now;
  }
  state_->open.generators.push_back({"cpu", known.bytes});
}

}  // namespace crucible::recorder
