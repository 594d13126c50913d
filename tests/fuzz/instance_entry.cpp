// fuzz_instance: an instance of the memory planner as CSV; what is read is planned, checked, written and read again.
#include <cstdlib>
#include <string_view>

#include "core/memory/instance_csv.hpp"
#include "tests/fuzz/entries.hpp"

namespace crucible::fuzz {

void fuzz_instance(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const Result<memory::Instance> instance = memory::parse_csv(text);
  if (!instance) {
    if (instance.error().code != ErrorCode::kBadInput) std::abort();
    return;
  }
  if (instance->ids.size() > 64) return;
  const Result<memory::Solution> solution = memory::solve(instance->problem, {.budget_passes = 8});
  if (!solution || solution->outcome != memory::Outcome::kFound) return;
  if (!memory::check(instance->problem, *solution)) std::abort();
  const std::string written = memory::to_csv(*instance, solution->offsets);
  const Result<memory::Instance> again = memory::parse_csv(written);
  if (!again || memory::to_csv(*again, solution->offsets) != written) std::abort();
}

std::vector<std::vector<std::byte>> instance_seeds() {
  constexpr std::string_view kTexts[] = {
      "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n",
      "buffer,start,end,size,alignment\nx,0,3,100,64\ny,2,5,7,8\n",
      "id,lower,upper,size,alignment,space,group,carried,offset\na,0,3,4,2,0,,0,8\nb,5,2,4,1,1,7,1,\nc,1,9,300,8,0,9,0,\n"};
  std::vector<std::vector<std::byte>> seeds;
  for (const std::string_view text : kTexts) {
    const auto bytes = std::as_bytes(std::span(text));
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  return seeds;
}

}  // namespace crucible::fuzz
