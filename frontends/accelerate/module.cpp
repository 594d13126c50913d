// The extension module crucible_torch._accelerate: what `crucible.accelerate` needs below Python. Each type registers
// itself through a function of its own; nothing else belongs here.
#include <Python.h>

#include "frontends/accelerate/compare.hpp"
#include "frontends/accelerate/engine.hpp"
#include "frontends/accelerate/guards.hpp"
#include "frontends/accelerate/philox.hpp"
#include "frontends/accelerate/roundings.hpp"
#include "frontends/accelerate/signature.hpp"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_accelerate",
                          "Native parts of crucible.accelerate.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__accelerate() {
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  if (!crucible::accelerate::add_guards(module) || !crucible::accelerate::add_engine(module) ||
      !crucible::accelerate::add_compare(module) || !crucible::accelerate::add_philox(module) ||
      !crucible::accelerate::add_roundings(module) || !crucible::accelerate::add_signature(module)) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
