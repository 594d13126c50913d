// One pass over memory: a program's every result is moved, and drawing random numbers for each would take longer than
// the program. So an element's direction is a hash of its place.
#include "frontends/accelerate/roundings.hpp"

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "frontends/accelerate/python_objects.hpp"

namespace crucible::accelerate {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

/// -1 or 1, each for a quarter of all places, else 0.
template <class Number>
Number direction(std::uint32_t place, std::uint32_t seed) {
  std::uint32_t hash = (place ^ seed) * 0x9E3779B9u;
  hash = (hash ^ (hash >> 15)) * 0x85EBCA6Bu;
  hash = (hash ^ (hash >> 13)) * 0xC2B2AE35u;
  return static_cast<Number>(static_cast<std::int32_t>(hash >> 31) - static_cast<std::int32_t>((hash >> 30) & 1));
}

/// `share` of an element is how far it goes. Zeros and whole numbers, as counters and masks are, stay, where the type
/// has others of that size; so does what is not finite, and what would not be any more.
template <class Element, class Number>
void move_range(Element* elements, std::int64_t begin, std::int64_t end, std::uint32_t seed, Number share) {
  const auto most = static_cast<Number>(std::numeric_limits<Element>::max());
  const Number least_whole = Number{0.5} / static_cast<Number>(std::numeric_limits<Element>::epsilon());
  constexpr Number kShift = Number{1.5} / std::numeric_limits<Number>::epsilon();  // leaves no place for a fraction
  for (std::int64_t at = begin; at < end; ++at) {
    const auto value = static_cast<Number>(elements[at]);
    const Number size = std::abs(value);
    const Number whole = (size + kShift) - kShift;
    const Number moved = value * (Number{1} + share * direction<Number>(static_cast<std::uint32_t>(at), seed));
    const bool stays = ((size < least_whole) & (whole == size)) | !(std::abs(moved) <= most);
    elements[at] = static_cast<Element>(stays ? value : moved);
  }
}

template <class Element, class Number>
void move_all(const at::Tensor& tensor, std::uint32_t seed, double roundings) {
  auto* const elements = tensor.mutable_data_ptr<Element>();
  const auto share = static_cast<Number>(roundings * static_cast<double>(std::numeric_limits<Element>::epsilon()));
  const ReleaseGil released;
  at::parallel_for(0, tensor.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    move_range<Element, Number>(elements, begin, end, seed, share);
  });
}

PyObject* move_by_roundings(PyObject*, PyObject* args) {
  PyObject* object = nullptr;
  unsigned int seed = 0;
  double roundings = 0;
  if (PyArg_ParseTuple(args, "OId", &object, &seed, &roundings) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    const at::NoGradGuard no_gradients;
    const at::Tensor place = THPVariable_Check(object) ? THPVariable_Unpack(object).detach() : at::Tensor{};
    if (!place.defined() || !place.is_cpu() || place.layout() != at::kStrided) {
      PyErr_SetString(PyExc_TypeError, "move_by_roundings(tensor in the processor's memory, seed, roundings)");
      return nullptr;
    }
    if (at::has_internal_overlap(place) == at::MemOverlap::Yes) return none();  // one place would be moved many times
    const bool has_gaps = !place.is_non_overlapping_and_dense();
    const at::Tensor tensor = has_gaps ? place.contiguous() : place;
    switch (tensor.scalar_type()) {
      case at::kFloat:
        move_all<float, float>(tensor, seed, roundings);
        break;
      case at::kDouble:
        move_all<double, double>(tensor, seed, roundings);
        break;
      case at::kHalf:
        move_all<at::Half, float>(tensor, seed, roundings);
        break;
      case at::kBFloat16:
        move_all<at::BFloat16, float>(tensor, seed, roundings);
        break;
      default:
        PyErr_SetString(PyExc_TypeError, "move_by_roundings() is of floating-point tensors of 16 to 64 bits");
        return nullptr;
    }
    if (has_gaps) place.copy_(tensor);
    return none();
  });
}

PyMethodDef functions[] = {
    {"move_by_roundings", move_by_roundings, METH_VARARGS,
     "move_by_roundings(tensor, seed, roundings): moves elements by so many roundings of their type up, down, or not, "
     "as\n"
     "the seed says. Zeros and whole numbers stay, unless the type has none but whole ones of that size."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_roundings(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace crucible::accelerate
