// libFuzzer's way into fuzz_instance (entries.hpp).
#include "tests/fuzz/entries.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crucible::fuzz::fuzz_instance(std::as_bytes(std::span(data, size)));
  return 0;
}
