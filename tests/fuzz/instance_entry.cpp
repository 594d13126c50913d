// fuzz_instance: a problem of the memory planner. CSV is planned, checked, written and read again; bytes are a problem
// with everything that CSV cannot say, and answers to it are held against each other.
#include <cstdlib>
#include <string_view>

#include "core/memory/certificate.hpp"
#include "core/memory/instance_csv.hpp"
#include "tests/fuzz/entries.hpp"

namespace crucible::fuzz {

namespace {

constexpr std::size_t kMostBuffers = 64;

void fuzz_csv(std::string_view text) {
  const Result<memory::Instance> instance = memory::parse_csv(text);
  if (!instance) {
    if (instance.error().code != ErrorCode::kBadInput) std::abort();
    return;
  }
  if (instance->ids.size() > kMostBuffers) return;
  const Result<memory::Solution> solution = memory::solve(instance->problem, {.budget_passes = 8});
  if (!solution || solution->outcome != memory::Outcome::kFound) return;
  if (!memory::check(instance->problem, *solution)) std::abort();
  const std::string written = memory::to_csv(*instance, solution->offsets);
  const Result<memory::Instance> again = memory::parse_csv(written);
  if (!again || memory::to_csv(*again, solution->offsets) != written) std::abort();
}

/// Numbers from bytes; zeros behind the last.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint32_t one() {
    if (bytes_.empty()) return 0;
    const auto value = std::to_integer<std::uint32_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::uint32_t two() {
    const std::uint32_t low = one();
    return low | one() << 8;
  }
  /// Up to 64 bits: a small number and by how much it is shifted.
  std::uint64_t shifted() {
    const std::uint64_t number = two();
    return number << one() % 56;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Budget and period, spaces, then one record a buffer or a pair kept apart.
memory::Problem problem_of(Bytes& bytes) {
  memory::Problem problem;
  problem.period = bytes.one();
  problem.spaces.resize(1 + bytes.one() % 3);
  for (memory::Space& space : problem.spaces) {
    space.alignment = std::uint64_t{1} << bytes.one() % 12;
    const std::uint64_t capacity = bytes.shifted();
    if (capacity != 0) space.capacity_bytes = capacity;
  }
  while (!bytes.empty() && problem.buffers.size() < kMostBuffers) {
    const std::uint32_t rules = bytes.one();
    if (rules % 16 == 15) {
      problem.apart.push_back({bytes.one(), bytes.one()});
      continue;
    }
    memory::Buffer buffer{.size_bytes = bytes.shifted(), .begin = bytes.one(), .end = bytes.one()};
    if (rules & 1) buffer.alignment = std::uint64_t{1} << bytes.one() % 64;
    if (rules & 2) buffer.pinned_offset = bytes.shifted();
    if (rules & 4) buffer.group = bytes.one();
    buffer.carried = (rules & 8) != 0;
    buffer.space = rules >> 4;
    problem.buffers.push_back(buffer);
  }
  return problem;
}

/// Where it is proved that there is no plan within the capacity, none is found without one that would fit.
void expect_true_refusal(const memory::Problem& problem, const memory::Solution& refused,
                         const memory::Options& options) {
  memory::Problem free = problem;
  for (memory::Space& space : free.spaces) space.capacity_bytes = memory::kNoCapacity;
  const Result<memory::Solution> solution = memory::solve(free, options);
  if (!solution) std::abort();
  if (solution->outcome != memory::Outcome::kFound) return;  // by the pins alone
  for (std::size_t i = 0; i < problem.spaces.size(); ++i) {
    const bool fits = solution->spaces[i].peak_bytes <= problem.spaces[i].capacity_bytes;
    if (fits && refused.spaces[i].outcome == memory::Outcome::kImpossible) std::abort();
  }
}

void fuzz_problem(Bytes bytes) {
  const memory::Options options{.budget_passes = bytes.one() % 32};
  const memory::Problem problem = problem_of(bytes);
  const Result<memory::Solution> solution = memory::solve(problem, options);
  if (!solution) {
    if (solution.error().code != ErrorCode::kBadInput) std::abort();
    return;
  }
  const bool is_found = solution->outcome == memory::Outcome::kFound;
  const memory::Certificate certificate = memory::certify(problem, *solution);
  if (certificate.is_valid != is_found || solution->offsets.empty() == (is_found && !problem.buffers.empty()))
    std::abort();
  if (solution->outcome == memory::Outcome::kImpossible) expect_true_refusal(problem, *solution, options);
}

}  // namespace

void fuzz_instance(std::span<const std::byte> input) {
  if (!input.empty() && input[0] == std::byte{0}) {
    fuzz_problem(Bytes(input.subspan(1)));
  } else {
    fuzz_csv({reinterpret_cast<const char*>(input.data()), input.size()});
  }
}

std::vector<std::vector<std::byte>> instance_seeds() {
  constexpr std::string_view kTexts[] = {"id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n",
                                         "buffer,start,end,size,alignment\nx,0,3,100,64\ny,2,5,7,8\n",
                                         "id,lower,upper,size,alignment,space,group,carried,offset\na,0,3,4,2,0,,0,"
                                         "8\nb,5,2,4,1,1,7,1,\nc,1,9,300,8,0,9,0,\n"};
  std::vector<std::vector<std::byte>> seeds;
  for (const std::string_view text : kTexts) {
    const auto bytes = std::as_bytes(std::span(text));
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  // Two spaces, one with a capacity; a plain buffer, one with an alignment and a pin, two of a group, one carried, a
  // pair.
  constexpr std::uint8_t kProblem[] = {0, 20, 12, 1,  4, 0, 0, 0, 0, 0, 16, 4,  //
                                       0, 7,  3,  0,  5, 3, 1, 2, 8, 4, 4,  1, 0, 4, 20, 9,  0, 0,
                                       2, 5,  1,  20, 4, 0, 1, 6, 8, 1, 8,  6, 0, 9, 2,  15, 0, 4};
  const auto bytes = std::as_bytes(std::span(kProblem));
  seeds.emplace_back(bytes.begin(), bytes.end());
  return seeds;
}

}  // namespace crucible::fuzz
