// The check that a HIP text really compiles for an AMD architecture: clang's amdgcn back end turns it to assembly, and
// what the assembly says about rounding and subnormal numbers is looked at. No ROCm, no linker, nothing is run.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace crucible::emulator {

struct RealCompile {
  std::string text;
  std::map<std::string, std::string> headers;
  std::string arch;
  std::vector<std::string> preprocessor, flags;
};

/// "" when it compiles and each kernel rounds to nearest and keeps subnormals; else what is wrong.
std::string compile_really(const RealCompile& source);

}  // namespace crucible::emulator
