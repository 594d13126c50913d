// libFuzzer's way into the structure-aware fuzzer: its bytes are the mutator's decisions. Nothing is compiled.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/judge.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const crucible::fuzz::Case made =
      crucible::fuzz::make_case(crucible::fuzz::Draw(std::as_bytes(std::span(data, size))));
  const std::string finding = made.finding.empty() ? crucible::fuzz::judge(made.recorded).finding : made.finding;
  if (finding.empty()) return 0;
  std::fprintf(stderr, "%s: %s\n", made.what.c_str(), finding.c_str());
  std::abort();
}
