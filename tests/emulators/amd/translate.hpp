// HIP text to C++ text for the processor: finds the kernels, gives them their indices as parameters, and says which of
// them meet (barriers, waves, matrices) and so need fibers. No parser: it works on preprocessed text, where macros and
// comments are gone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crucible::emulator {

struct TranslatedKernel {
  std::string name;
  bool meets = false;
  unsigned most_threads = 1024;  // by __launch_bounds__
};

struct Translation {
  std::string text;  // for the compiler, behind device_on_cpu.hpp, with the entries
  std::vector<TranslatedKernel> kernels;
  bool indices_outside = false;  // functions that are no kernels ask for indices
  bool matrices = false;         // it needs matrix_on_cpu.hpp
};

Translation translate(std::string_view preprocessed);

}  // namespace crucible::emulator
