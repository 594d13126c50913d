// make_corpus FOLDER: writes the inputs that the fuzzers start from into FOLDER/trace, FOLDER/journal, FOLDER/program
// and FOLDER/instance.
#include <cstdio>

#include "core/trace/trace_samples.hpp"
#include "tests/fuzz/entries.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const auto write = [&](const char* name, const std::vector<std::vector<std::byte>>& seeds) {
    std::filesystem::create_directories(folder / name);
    for (std::size_t i = 0; i < seeds.size(); ++i)
      crucible::trace::samples::write_bytes(folder / name / ("seed_" + std::to_string(i)), seeds[i]);
  };
  write("trace", crucible::fuzz::trace_seeds());
  write("journal", crucible::fuzz::journal_seeds());
  write("program", crucible::fuzz::program_seeds());
  write("instance", crucible::fuzz::instance_seeds());
  return 0;
}
