// Who makes a reference: the thread while a compiler works, or whoever needs it, from the other end. Each kernel gets
// one, and its own.
#include "runtime/judge/trial_references.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using namespace std::chrono_literals;

/// A training step in kernels of one op each, with what a trial has to know of its plan.
class Kernels {
 public:
  Kernels() : program_(training_step()) {
    program_ = record(std::move(program_), 1, 3).program;
    auto prepared = kernel::prepare(program_, {.fuse = false});
    EXPECT_TRUE(prepared) << prepared.error().message;
    schedule_ = std::move(prepared->schedule);
    auto placed = place(program_, schedule_, std::vector<std::uint64_t>(schedule_.steps.size(), 0));
    EXPECT_TRUE(placed) << placed.error().message;
    placement_ = *std::move(placed);
    for (const kernel::Kernel& kernel : schedule_.kernels)
      sources_.push_back({.name = kernel.name, .opaque = kernel.opaque, .ir = kernel.ir});
  }

  /// Without a device: references are made on the host.
  TrialPlace place_of_trial() const {
    return {.device = nullptr, .program = program_, .schedule = schedule_, .placement = placement_};
  }
  const std::vector<backend::KernelSource>& sources() const { return sources_; }

  /// How often each kernel is given out; whether it is that kernel's reference.
  std::map<std::string, int> taken(TrialReferences& references) const {
    std::map<std::string, int> times;
    while (auto next = references.next()) {
      ++times[next->kernel];
      EXPECT_TRUE(next->made) << next->made.error().message;
      if (!next->made) continue;
      const auto source = std::ranges::find(sources_, next->kernel, &backend::KernelSource::name);
      EXPECT_EQ(kernel::serialize_ir(next->made->subject->ir), source->ir)
          << next->kernel << " gets the reference of another";
      EXPECT_TRUE(next->made->reference && *next->made->reference) << next->kernel;
      if (next->made->reference && *next->made->reference) {
        EXPECT_EQ(&(**next->made->reference).subject(), next->made->subject.get());
      }
    }
    return times;
  }

 private:
  graph::Program program_;
  kernel::Schedule schedule_;
  Placement placement_;
  std::vector<backend::KernelSource> sources_;
};

std::set<std::string_view> names_of(const std::vector<backend::KernelSource>& sources) {
  std::set<std::string_view> names;
  for (const backend::KernelSource& source : sources) names.insert(source.name);
  return names;
}

std::map<std::string, int> once_each(const std::set<std::string_view>& names) {
  std::map<std::string, int> times;
  for (const std::string_view name : names) times[std::string(name)] = 1;
  return times;
}

TEST(TrialReferences, WithoutAThreadThatBeginsEachKernelGetsItsOwnFromTheEnd) {
  const Kernels kernels;
  ASSERT_GT(kernels.sources().size(), 5u);
  TrialReferences references(kernels.place_of_trial());
  references.start(kernels.sources(), 1h);
  const auto names = names_of(kernels.sources());
  references.want(names);
  EXPECT_EQ(kernels.taken(references), once_each(names));
  EXPECT_FALSE(references.next()) << "once";
}

TEST(TrialReferences, FromBothEndsAtOnceEachKernelIsGivenOnce) {
  const Kernels kernels;
  const auto names = names_of(kernels.sources());
  for (int round = 0; round < 30; ++round) {
    TrialReferences references(kernels.place_of_trial());
    references.start(kernels.sources(), std::chrono::milliseconds(round % 3));
    if (round % 2 == 1) std::this_thread::sleep_for(2ms);
    references.want(names);
    ASSERT_EQ(kernels.taken(references), once_each(names)) << round;
  }
}

TEST(TrialReferences, WhatIsNotWantedIsNotGiven) {
  const Kernels kernels;
  auto wanted = names_of(kernels.sources());
  for (auto name = wanted.begin(); name != wanted.end();)
    name = wanted.size() > 3 ? wanted.erase(name) : std::next(name);
  for (const auto wait : {0ms, 3'600'000ms}) {
    TrialReferences references(kernels.place_of_trial());
    references.start(kernels.sources(), wait);
    std::this_thread::sleep_for(3ms);  // some are there already
    references.want(wanted);
    EXPECT_EQ(kernels.taken(references), once_each(wanted));
  }
}

TEST(TrialReferences, WhatIsGivenBackIsFreedWithAndWithoutAThread) {
  const Kernels kernels;
  for (const bool has_thread : {true, false}) {
    TrialReferences references(kernels.place_of_trial());
    if (has_thread) references.start(kernels.sources(), 0ms);
    references.want(names_of(kernels.sources()));
    std::size_t given = 0;
    for (int round = 0; round < 20; ++round) {
      while (auto next = references.next()) {
        ASSERT_TRUE(next->made);
        references.give_back(*std::move(next->made));
        ++given;
      }
      Result<TrialReferences::Made> made = references.make(kernels.sources()[0]);
      ASSERT_TRUE(made);
      references.give_back(*std::move(made));
    }
    EXPECT_EQ(given, has_thread ? kernels.sources().size() : 0);
    references.stop();
    Result<TrialReferences::Made> made = references.make(kernels.sources()[0]);
    ASSERT_TRUE(made);
    references.give_back(*std::move(made));
  }
}

TEST(TrialReferences, StoppedItGivesWhatIsWantedAllTheSame) {
  const Kernels kernels;
  const auto names = names_of(kernels.sources());
  TrialReferences references(kernels.place_of_trial());
  references.start(kernels.sources(), 0ms);
  references.stop();
  references.want(names);
  EXPECT_EQ(kernels.taken(references), once_each(names));
}

}  // namespace
}  // namespace crucible::runtime
