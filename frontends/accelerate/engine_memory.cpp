#include "frontends/accelerate/engine_memory.hpp"

#include <ATen/ops/empty_strided.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace crucible::accelerate {
namespace {

using Kind = runtime::BoundForm::Kind;

bool is_bound(const Engine& engine, const at::Tensor& tensor) {
  const void* const memory = tensor.storage().data();
  for (std::size_t k = 0; k < engine.bound.size(); ++k) {
    if (engine.bound[k] != nullptr && engine.compiled.executable->bound(k) == memory) return true;
  }
  return false;
}

template <typename Do>
void for_places(Engine& engine, const Do& act) {
  const runtime::Executable& executable = *engine.compiled.executable;
  engine.saved.resize(executable.places().size());
  for (const std::size_t place : executable.written_first()) {
    const runtime::BoundForm::Place& what = executable.places()[place];
    if (what.kind != Kind::kOutput && what.size_bytes != 0)
      act(engine.saved[place], const_cast<void*>(executable.bound(place)), what.size_bytes);
  }
}

}  // namespace

bool covers(const at::Tensor& tensor, std::uint64_t size_bytes) {
  return tensor.has_storage() && tensor.device().is_cpu() &&
         tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()) == static_cast<std::int64_t>(size_bytes) &&
         tensor.is_non_overlapping_and_dense() && !tensor.is_conj() && !tensor.is_neg();
}

Result<void> bind_memory(Engine& engine, std::size_t place, void* memory) {
  CRUCIBLE_TRY_VOID(engine.compiled.executable->bind(place, memory));
  // The bounds' program has the same states, and one output of its own in the place of all others.
  runtime::Executable* const bounds = engine.compiled.bounds.get();
  if (bounds == nullptr) return {};
  const std::vector<runtime::BoundForm::Place>&all = engine.compiled.executable->places(), &own = bounds->places();
  std::size_t states = 0;
  while (states < all.size() && all[states].kind == Kind::kState) ++states;
  if (all[place].kind == Kind::kOutput) return {};
  const std::size_t at = place < states ? place : place - (all.size() - own.size());
  return bounds->uses(at) ? bounds->bind(at, memory) : Result<void>();
}

at::Tensor memory_of(OutputSpec& output) {
  const auto fresh = [&] {
    return at::empty_strided(output.sizes, output.strides, at::TensorOptions().dtype(output.dtype));
  };
  if (output.parameter == nullptr || !output.turned.empty()) return fresh();
  const at::Tensor& present = THPVariable_Unpack(output.parameter).grad();
  const bool is_ours = present.defined() && output.last.defined() && present.is_same(output.last);
  // Two references: the parameter's and ours. Python's own would be a third.
  if (is_ours && output.last.use_count() == 2 && output.last.storage().use_count() == 1) {
    if (!output.is_early) return output.last;
    std::swap(output.last, output.spare);  // eager may have to begin with the one that is there
    const bool is_free = output.last.defined() && output.last.use_count() == 1;
    if (is_free && output.last.storage().use_count() == 1) return output.last;
  }
  output.last = fresh();
  return output.last;
}

void bump_versions(const Engine& engine) {
  for (PyObject* const tensor : engine.written) THPVariable_Unpack(tensor).unsafeGetTensorImpl()->bump_version();
}

const char* gradients_differ(const Engine& engine) {
  for (const GradSpec& grad : engine.grads) {
    if (THPVariable_Unpack(grad.parameter).grad().defined() != grad.is_there)
      return grad.is_there ? "a parameter has no gradient" : "a parameter has a gradient";
  }
  for (const GradSpec& grad : engine.grads) {
    if (!grad.place) continue;
    const at::Tensor& tensor = THPVariable_Unpack(grad.parameter).grad();
    const std::uint64_t size_bytes = engine.compiled.executable->places()[*grad.place].size_bytes;
    if (!covers(tensor, size_bytes) || tensor.storage().nbytes() != size_bytes ||
        !std::ranges::equal(tensor.strides(), grad.strides))
      return "a gradient is no tensor of its own";
  }
  return nullptr;
}

const char* argument_differs(const Engine& engine, const at::Tensor& tensor, std::uint64_t size_bytes) {
  if (!covers(tensor, size_bytes)) return "an argument has another size";
  if (is_bound(engine, tensor)) return "an argument shares memory with a tensor that the function reaches by itself";
  return nullptr;
}

void save_places(Engine& engine) {
  for_places(engine, [](std::vector<std::byte>& saved, const void* memory, std::uint64_t size_bytes) {
    const auto* const bytes = static_cast<const std::byte*>(memory);
    saved.assign(bytes, bytes + size_bytes);
  });
}

void put_back(Engine& engine) {
  for_places(engine, [](const std::vector<std::byte>& saved, void* memory, std::uint64_t size_bytes) {
    std::memcpy(memory, saved.data(), size_bytes);
  });
}

// Pages that lie in it as a whole: the device's memory is the processor's.
void give_back_arena(const Engine& engine) {
  const runtime::Executable& executable = *engine.compiled.executable;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = (executable.arena_address() + page - 1) / page * page;
  const std::uint64_t end = (executable.arena_address() + executable.arena_bytes()) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace crucible::accelerate
