// libFuzzer's way into fuzz_program (entries.hpp).
#include "tests/fuzz/entries.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crucible::fuzz::fuzz_program(std::as_bytes(std::span(data, size)));
  return 0;
}
