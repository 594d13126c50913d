// Elements go by blocks of lanes that the compiler makes vectors of: each lane has a largest value of its own.
#include "frontends/accelerate/compare.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "frontends/accelerate/python_objects.hpp"

namespace crucible::accelerate {
namespace {

constexpr std::int64_t kLanes = 16, kGrain = 1 << 16;

/// Elements that may differ by `room`: those whose size is at most `bound`. `sizes` is null where there are none.
template <class Number>
struct Excuse {
  const Number* sizes = nullptr;
  Number bound = 0, room = 0;
};

template <class Number>
struct Found {
  Number gap = 0, largest = 0;  // of finite elements, in absolute terms
  bool is_other_kind = false;   // a NaN or an infinity stands where the other has something else
};

template <class Number>
Found<Number> larger(const Found<Number>& a, const Found<Number>& b) {
  return {std::max(a.gap, b.gap), std::max(a.largest, b.largest), a.is_other_kind || b.is_other_kind};
}

template <class Number>
struct Lanes {
  std::array<Number, kLanes> gap{}, largest{};
  std::array<int, kLanes> others{};

  template <bool kIsExcused, class Element>
  void take(std::int64_t lane, Element actual, Element expected, Number size, const Excuse<Number>& excuse) {
    constexpr Number kMost = std::numeric_limits<Number>::max();
    const Number a = static_cast<Number>(actual), b = static_cast<Number>(expected);
    const Number size_of_b = std::abs(b), distance = std::abs(a - b);
    const bool is_finite = size_of_b <= kMost, is_like = (a == b) | ((a != a) & (b != b));
    const bool is_passed =
        kIsExcused && static_cast<bool>((std::abs(size) <= excuse.bound) & (distance <= excuse.room));
    const Number kept = is_finite & !is_passed ? distance : Number{0}, counted = is_finite ? size_of_b : Number{0};
    gap[lane] = kept > gap[lane] ? kept : gap[lane];
    largest[lane] = counted > largest[lane] ? counted : largest[lane];
    others[lane] |= static_cast<int>(!is_like & !(is_finite & (std::abs(a) <= kMost)));
  }

  Found<Number> found() const {
    Found<Number> all;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) all = larger(all, {gap[lane], largest[lane], others[lane] != 0});
    return all;
  }
};

template <bool kIsExcused, class Element, class Number>
Found<Number> compare_range(const Element* a, const Element* b, std::int64_t count, const Excuse<Number>& excuse) {
  Lanes<Number> lanes;
  std::int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const Number size = kIsExcused ? excuse.sizes[at + lane] : Number{0};
      lanes.template take<kIsExcused>(lane, a[at + lane], b[at + lane], size, excuse);
    }
  }
  for (; at < count; ++at) {
    const Number size = kIsExcused ? excuse.sizes[at] : Number{0};
    lanes.template take<kIsExcused>(0, a[at], b[at], size, excuse);
  }
  return lanes.found();
}

template <class Element, class Number>
Found<Number> compare_all(const at::Tensor& a, const at::Tensor& b, const Excuse<Number>& excuse) {
  const auto* const left = a.const_data_ptr<Element>();
  const auto* const right = b.const_data_ptr<Element>();
  return at::parallel_reduce(
      0, a.numel(), kGrain, Found<Number>{},
      [&](std::int64_t begin, std::int64_t end, const Found<Number>& before) {
        if (excuse.sizes == nullptr)
          return larger(before, compare_range<false>(left + begin, right + begin, end - begin, excuse));
        Excuse<Number> own = excuse;
        own.sizes += begin;
        return larger(before, compare_range<true>(left + begin, right + begin, end - begin, own));
      },
      larger<Number>);
}

/// (whether NaN and infinities stand at the same places, the largest gap, the largest value).
template <class Element, class Number>
PyObject* answer(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sizes, double bound, double room) {
  Excuse<Number> excuse;
  if (sizes.defined()) {
    excuse = {sizes.const_data_ptr<Number>(), static_cast<Number>(bound), static_cast<Number>(room)};
  }
  Found<Number> found;
  {
    const ReleaseGil released;
    found = compare_all<Element>(a, b, excuse);
  }
  return Py_BuildValue("(Odd)", found.is_other_kind ? Py_False : Py_True, static_cast<double>(found.gap),
                       static_cast<double>(found.largest));
}

/// Of a tensor whose elements stand as `like`'s do: itself where they do already.
at::Tensor beside(const at::Tensor& tensor, const at::Tensor& like) {
  if (tensor.strides() == like.strides()) return tensor;
  at::Tensor moved = at::empty_strided(like.sizes(), like.strides(), tensor.options());
  return moved.copy_(tensor);
}

PyObject* gap(PyObject*, PyObject* args) {
  PyObject *actual = nullptr, *expected = nullptr, *sizes = Py_None;
  double bound = 0, room = 0;
  if (PyArg_ParseTuple(args, "OO|Odd", &actual, &expected, &sizes, &bound, &room) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    const bool are_tensors =
        THPVariable_Check(actual) && THPVariable_Check(expected) && (sizes == Py_None || THPVariable_Check(sizes));
    if (!are_tensors || THPVariable_Unpack(actual).scalar_type() != THPVariable_Unpack(expected).scalar_type() ||
        THPVariable_Unpack(actual).sizes() != THPVariable_Unpack(expected).sizes()) {
      PyErr_SetString(PyExc_TypeError,
                      "gap(tensor, tensor of the same shape and type, tensor of sizes or None, bound, room)");
      return nullptr;
    }
    const at::NoGradGuard no_gradients;
    at::Tensor b = THPVariable_Unpack(expected).detach();
    if (!b.is_non_overlapping_and_dense()) b = b.contiguous();
    const at::Tensor a = beside(THPVariable_Unpack(actual).detach(), b);
    const bool is_double = b.scalar_type() == at::kDouble;
    at::Tensor excused;
    if (sizes != Py_None) {
      excused = THPVariable_Unpack(sizes).detach();
      if (excused.sizes() != b.sizes()) {
        PyErr_SetString(PyExc_ValueError, "the sizes that excuse are of another shape");
        return nullptr;
      }
      excused = beside(excused.to(is_double ? at::kDouble : at::kFloat), b);
    }
    switch (b.scalar_type()) {
      case at::kFloat:
        return answer<float, float>(a, b, excused, bound, room);
      case at::kDouble:
        return answer<double, double>(a, b, excused, bound, room);
      case at::kHalf:
        return answer<at::Half, float>(a, b, excused, bound, room);
      case at::kBFloat16:
        return answer<at::BFloat16, float>(a, b, excused, bound, room);
      default:
        PyErr_SetString(PyExc_TypeError, "gap() is of floating-point tensors of 16 to 64 bits");
        return nullptr;
    }
  });
}

PyMethodDef functions[] = {
    {"gap", gap, METH_VARARGS,
     "gap(actual, expected, sizes=None, bound=0, room=0): (whether NaN and infinities stand at the same places, the\n"
     "largest difference of finite elements, the largest of `expected`). Elements whose size is at most `bound` may\n"
     "differ by `room`."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_compare(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace crucible::accelerate
