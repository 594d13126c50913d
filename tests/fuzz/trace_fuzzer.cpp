// libFuzzer's way into fuzz_trace (entries.hpp).
#include "tests/fuzz/entries.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crucible::fuzz::fuzz_trace(std::as_bytes(std::span(data, size)));
  return 0;
}
