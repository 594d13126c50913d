// See philox.hpp.
#include "frontends/accelerate/philox.hpp"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace crucible::accelerate {
namespace {

constexpr std::int64_t kRounds = 10;
constexpr std::int64_t kCall = 2 * kRounds;  // in the table, behind the rounds' keys
constexpr std::int64_t kStream = kCall + 1;
constexpr std::int64_t kAtOnce = 16;      // counters, so that the compiler takes vectors of them
constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth another thread

/// Words of the elements [begin, end): word k of element i is out[k * count + i].
void fill(const std::int64_t* table, std::uint32_t op, std::int64_t begin, std::int64_t end, std::int64_t count,
          std::int64_t wanted, std::int64_t* out) {
  for (std::int64_t from = begin; from < end; from += kAtOnce) {
    const std::int64_t size = std::min(kAtOnce, end - from);
    std::array<std::uint64_t, kAtOnce> c0{}, c1{}, c2{}, c3{};
    for (std::int64_t i = 0; i < kAtOnce; ++i) {
      const auto index = static_cast<std::uint64_t>(from + i);
      c0[i] = index & 0xffffffff;
      c1[i] = (index >> 32) ^ static_cast<std::uint64_t>(table[kStream]);
      c2[i] = static_cast<std::uint64_t>(table[kCall]);
      c3[i] = op;
    }
    for (std::int64_t r = 0; r < kRounds; ++r) {
      const auto k0 = static_cast<std::uint64_t>(table[2 * r]), k1 = static_cast<std::uint64_t>(table[2 * r + 1]);
      for (std::int64_t i = 0; i < kAtOnce; ++i) {
        const std::uint64_t first = (c0[i] & 0xffffffff) * 0xD2511F53;
        const std::uint64_t second = (c2[i] & 0xffffffff) * 0xCD9E8D57;
        c0[i] = (second >> 32) ^ c1[i] ^ k0;
        c1[i] = second & 0xffffffff;
        c2[i] = (first >> 32) ^ c3[i] ^ k1;
        c3[i] = first & 0xffffffff;
      }
    }
    const std::array<const std::uint64_t*, 4> words{c0.data(), c1.data(), c2.data(), c3.data()};
    for (std::int64_t k = 0; k < wanted; ++k) {
      for (std::int64_t i = 0; i < size; ++i) out[k * count + from + i] = static_cast<std::int64_t>(words[k][i]);
    }
  }
}

bool is_whole(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kLong && tensor.is_contiguous();
}

PyObject* philox_words(PyObject*, PyObject* args) {
  PyObject *table_object = nullptr, *out_object = nullptr;
  unsigned int op = 0;
  if (!PyArg_ParseTuple(args, "OIO", &table_object, &op, &out_object)) return nullptr;
  if (THPVariable_Check(table_object) && THPVariable_Check(out_object)) {
    const at::Tensor table = THPVariable_Unpack(table_object);
    const at::Tensor out = THPVariable_Unpack(out_object);
    if (is_whole(table) && table.numel() == kStream + 1 && is_whole(out) && out.dim() == 2 && out.size(0) <= 4) {
      const std::int64_t wanted = out.size(0), count = out.size(1);
      const auto* const from = table.const_data_ptr<std::int64_t>();
      auto* const to = out.mutable_data_ptr<std::int64_t>();
      at::parallel_for(0, count, kGrain,
                       [&](std::int64_t begin, std::int64_t end) { fill(from, op, begin, end, count, wanted, to); });
      Py_RETURN_NONE;
    }
  }
  PyErr_SetString(PyExc_ValueError,
                  "philox_words(table, op, out): two tensors of i64, row-major, of 22 numbers and of "
                  "[words, elements]");
  return nullptr;
}

PyMethodDef functions[] = {
    {"philox_words", philox_words, METH_VARARGS,
     "philox_words(table, op, out): writes the first words of the op's elements into `out`, [words, elements] of i64."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_philox(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace crucible::accelerate
