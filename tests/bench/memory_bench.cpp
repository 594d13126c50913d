// The memory planner's figures: time, peak over lower bound and what docs/memory-planner.md promises, on one thread.
//
//     memory_bench                       synthetic training graphs and random buffers of 10^3 to 10^6
//     memory_bench --instances DIR       also every CSV file below DIR; DIR/stats.csv has the best known peaks
//
// Not a test: figures mean something only on an idle machine. Times are of this process's processor.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "core/memory/certificate.hpp"
#include "core/memory/instance_csv.hpp"
#include "core/memory/plan.hpp"

namespace crucible::bench {
namespace {

using memory::Buffer;
using memory::Options;
using memory::Problem;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Activations that live from a forward step to its backward step, gradients that live shortly, temporaries.
Problem train(std::uint32_t count) {
  std::mt19937_64 random(count);
  const std::uint32_t layers = count / 4;
  Problem problem;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::uint32_t backward = 2 * layers - layer;
    problem.buffers.push_back({64 * (1 + random() % 60'000), layer, backward});
    problem.buffers.push_back(
        {64 * (1 + random() % 60'000), layer, layer + 1 + static_cast<std::uint32_t>(random() % 4)});
    problem.buffers.push_back({64 * (1 + random() % 60'000), backward - 1, backward + 1});
    problem.buffers.push_back(
        {64 * (1 + random() % 6'000), backward, backward + 2 + static_cast<std::uint32_t>(random() % 3)});
  }
  return problem;
}

/// Sizes around 22 KB with a long tail, lengths evenly spread over their orders of magnitude, at random times.
Problem scattered(std::uint32_t count) {
  std::mt19937_64 random(count);
  std::lognormal_distribution<double> size(10.0, 2.0);
  std::uniform_real_distribution<double> order(0.0, std::log(count / 10.0));
  Problem problem;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::uint32_t>(random() % (2 * count));
    const std::uint32_t end = begin + std::max(1u, static_cast<std::uint32_t>(std::exp(order(random))));
    problem.buffers.push_back({64 * (1 + static_cast<std::uint64_t>(size(random)) / 64), begin, end});
  }
  return problem;
}

struct Row {
  std::string name;
  Problem problem;
  std::uint64_t budget = 0;
  std::string target;          // time and ratio, as promised
  std::uint64_t best_known = 0;  // 0: none
};

/// Plans, checks, prints; in a process of its own, so that the memory is that of this row. True when the plan is valid
/// and not above the best known peak by more than half a percent.
bool print_row(const Row& row) {
  const double start = processor_seconds();
  const Result<memory::Solution> solution = memory::solve(row.problem, {.budget_passes = row.budget});
  const double seconds = processor_seconds() - start;
  if (!solution || solution->outcome != memory::Outcome::kFound) {
    fmt::print("{:<44} {}\n", row.name, solution ? solution->spaces[0].reason : solution.error().message);
    return false;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const memory::Certificate certificate = memory::certify(row.problem, *solution);
  const memory::SpacePlan& plan = solution->spaces[0];
  const double ratio =
      static_cast<double>(plan.peak_bytes) / static_cast<double>(std::max<std::uint64_t>(1, plan.lower_bound_bytes));
  std::string known;
  if (row.best_known != 0) {
    known = fmt::format("{:+.4f} % of best known",
                        100 * (static_cast<double>(plan.peak_bytes) / static_cast<double>(row.best_known) - 1));
  }
  fmt::print("{:<44} {:>8} {:>10.1f} ms {:>9.6f} {:>6} MiB  {}{}{}\n", row.name, row.problem.buffers.size(),
             1e3 * seconds, ratio, usage.ru_maxrss / 1024, row.target, known,
             certificate.is_valid ? "" : "  NOT VALID: " + certificate.verdict);
  std::fflush(stdout);
  return certificate.is_valid &&
         (row.best_known == 0 || static_cast<double>(plan.peak_bytes) <= 1.005 * static_cast<double>(row.best_known));
}

/// The row is made and measured in the child.
bool in_child(const std::function<Row()>& make) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(print_row(make()) ? 0 : 1);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void print_head(const char* title) {
  fmt::print("\n{}\n{:<44} {:>8} {:>13} {:>9} {:>10}  to reach\n", title, "instance", "buffers", "time", "ratio",
             "memory");
}

bool synthetic_rows() {
  struct Size {
    std::uint32_t count;
    std::uint64_t budget;
    const char* what;
    const char* target;
  };
  constexpr Size kSizes[] = {{1'000, 0, "tiers 0 and 1", "12 ms, 1.002"},
                             {10'000, 0, "tiers 0 and 1", "220 ms, 1.002"},
                             {50'000, 0, "tiers 0 and 1", "400 ms, 1.008"},
                             {100'000, Options::kQuick, "quick", "300 ms a pass, 1.002"},
                             {1'000'000, Options::kQuick, "one pass", "7 s, 2048 MiB, 1.001"}};
  print_head("Synthetic, one thread: time and peak over lower bound");
  bool good = true;
  for (const Size& size : kSizes) {
    good &= in_child(
        [&] { return Row{fmt::format("train, {}", size.what), train(size.count), size.budget, size.target, 0}; });
    good &= in_child(
        [&] { return Row{fmt::format("rand, {}", size.what), scattered(size.count), size.budget, size.target, 0}; });
  }
  return good;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// Column 6 of stats.csv by column 1: the best known peaks.
std::map<std::string, std::uint64_t> best_known(const std::filesystem::path& folder) {
  std::map<std::string, std::uint64_t> peaks;
  std::ifstream file(folder / "stats.csv");
  for (std::string line; std::getline(file, line);) {
    std::size_t at = 0;
    for (int column = 1; column < 6 && at != std::string::npos; ++column) at = line.find(',', at) + 1;
    peaks[line.substr(0, line.find(','))] = std::strtoull(line.c_str() + at, nullptr, 10);
  }
  return peaks;
}

bool instance_rows(const std::filesystem::path& folder) {
  const std::map<std::string, std::uint64_t> peaks = best_known(folder);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".csv" && entry.path().filename() != "stats.csv") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  const auto row = [&](const std::filesystem::path& path, std::uint64_t budget, std::uint64_t capacity) {
    const std::string text = read_file(path);
    Result<memory::Instance> instance = memory::parse_csv(text);
    if (!instance) return Row{path.filename().string() + ": " + instance.error().message, {}, 0, "", 0};
    for (memory::Space& space : instance->problem.spaces) space.capacity_bytes = capacity;
    const auto known = peaks.find(std::filesystem::relative(path, folder).string());
    const bool compares = capacity == memory::kNoCapacity && known != peaks.end() && budget != 0;
    return Row{path.stem().string().substr(0, 44), std::move(instance->problem), budget, "",
               compares ? known->second : 0};
  };
  bool good = true;
  print_head("Instances, tiers 0 and 1 only, 500 buffers and more");
  for (const auto& path : files) {
    if (std::filesystem::file_size(path) > 10'000) good &= in_child([&] { return row(path, 0, memory::kNoCapacity); });
  }
  print_head("Instances, thorough");
  for (const auto& path : files) good &= in_child([&] { return row(path, Options::kThorough, memory::kNoCapacity); });
  print_head("Instances of MiniMalloc at capacity 1048576 (to reach: found, 0.5 s)");
  for (const auto& path : files) {
    if (path.string().ends_with(".1048576.csv"))
      good &= in_child([&] { return row(path, Options::kThorough, 1048576); });
  }
  return good;
}

}  // namespace
}  // namespace crucible::bench

int main(int argc, char** argv) {
  if (argc != 1 && !(argc == 3 && std::strcmp(argv[1], "--instances") == 0)) {
    fmt::print(stderr, "usage: memory_bench [--instances DIR]\n");
    return 2;
  }
  bool good = crucible::bench::synthetic_rows();
  if (argc == 3) good &= crucible::bench::instance_rows(argv[2]);
  return good ? 0 : 1;
}
