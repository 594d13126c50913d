// What does not matter leaves the hashes as they are; every single thing that matters changes them.
#include "core/trace/content_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "core/trace/memory_blob_store.hpp"
#include "core/trace/trace_samples.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {
namespace {

/// A trace in which every record is used: small_trace() with externals of two storages that no op has.
Trace sample() {
  Trace trace = samples::small_trace();
  trace.storages.push_back({500, "cpu"});
  trace.storages.push_back({500, "cpu"});
  trace.externals.push_back({2, 1, 2, Role::kBuffer, "unused", 1});
  trace.final_states.push_back({2, Role::kBuffer, "unused", 1});
  trace.final_states.push_back({3, Role::kBuffer, "unused too", 1});
  trace.outputs.push_back({1, "loss", 1, 2});
  trace.draws.push_back({0, 0, 2});
  EXPECT_TRUE(validate(trace));
  return trace;
}

/// A random order of `size` ids: order[old] is the new one.
std::vector<std::uint32_t> shuffled(std::size_t size, std::mt19937_64& random) {
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

template <class Record>
std::vector<Record> reordered(const std::vector<Record>& records, const std::vector<std::uint32_t>& order) {
  std::vector<Record> made(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) made[order[i]] = records[i];
  return made;
}

void renumber(std::uint32_t& id, const std::vector<std::uint32_t>& order) {
  if (id != kNone) id = order[id];
}

void renumber(Arg& arg, const std::vector<std::uint32_t>& order) {
  if (arg.kind == Arg::Kind::kTensor) renumber(arg.tensor, order);
  for (Arg& element : arg.list) renumber(element, order);
}

/// The same recording with every table in another order.
Trace permuted(Trace trace, std::mt19937_64& random) {
  const auto schemas = shuffled(trace.schemas.size(), random), modules = shuffled(trace.modules.size(), random),
             storages = shuffled(trace.storages.size(), random), tensors = shuffled(trace.tensors.size(), random),
             blobs = shuffled(trace.blobs.size(), random);
  trace.schemas = reordered(trace.schemas, schemas);
  trace.modules = reordered(trace.modules, modules);
  trace.storages = reordered(trace.storages, storages);
  trace.tensors = reordered(trace.tensors, tensors);
  trace.blobs = reordered(trace.blobs, blobs);
  for (Tensor& it : trace.tensors) renumber(it.storage, storages);
  for (Op& it : trace.ops) {
    renumber(it.schema, schemas);
    renumber(it.module, modules);
    for (auto* args : {&it.args, &it.outputs}) {
      for (Arg& arg : *args) renumber(arg, tensors);
    }
  }
  for (Iteration& it : trace.iterations) {
    for (Loss& loss : it.losses) renumber(loss.tensor, tensors);
  }
  for (External& it : trace.externals) renumber(it.storage, storages), renumber(it.blob, blobs);
  for (FinalState& it : trace.final_states) renumber(it.storage, storages), renumber(it.blob, blobs);
  for (Draw& it : trace.draws) renumber(it.blob, blobs);
  for (GeneratorState& it : trace.generators) renumber(it.blob, blobs);
  for (Output& it : trace.outputs) renumber(it.tensor, tensors), renumber(it.blob, blobs);
  for (CompoundTensor& it : trace.compounds) {
    renumber(it.tensor, tensors);
    for (auto& [name, part] : it.parts) renumber(part, tensors);
  }
  trace.externals = reordered(trace.externals, shuffled(trace.externals.size(), random));
  trace.final_states = reordered(trace.final_states, shuffled(trace.final_states.size(), random));
  trace.draws = reordered(trace.draws, shuffled(trace.draws.size(), random));
  trace.generators = reordered(trace.generators, shuffled(trace.generators.size(), random));
  trace.outputs = reordered(trace.outputs, shuffled(trace.outputs.size(), random));
  return trace;
}

TEST(ContentHash, DoesNotDependOnTheOrderOfTables) {
  std::mt19937_64 random(1);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Trace trace = seed == 0 ? sample() : samples::random_trace(seed, seed * 4);
    const ContentHashes hashes = hash_content(trace);
    EXPECT_NE(hashes.program, hashes.content);
    for (int i = 0; i < 5; ++i) {
      const ContentHashes other = hash_content(permuted(trace, random));
      EXPECT_EQ(other.program, hashes.program) << seed;
      EXPECT_EQ(other.content, hashes.content) << seed;
    }
  }
}

TEST(ContentHash, DoesNotDependOnWhereAndHowItWasRecorded) {
  const ContentHashes hashes = hash_content(sample());
  const std::vector<std::function<void(Trace&)>> changes = {
      [](Trace& it) { it.metadata = {"a", "b", "c", "d", "e", "f", 9, 8}; },
      [](Trace& it) { it.sites[0] = {"/other/train.py", 99, "main"}; },
      [](Trace& it) { it.ops[0].site = kNone; },
      [](Trace& it) { it.ops[0].thread = 77; },
      [](Trace& it) { it.op_hashes.clear(); },
      [](Trace& it) { it.not_recorded.clear(); },
      [](Trace& it) {  // nothing uses them
        it.schemas.push_back({"aten::mul", "", ""});
        it.modules.push_back("unused");
        it.storages.push_back({1, "cpu"});
        it.tensors.push_back(it.tensors[0]);
        it.blobs.push_back({{}, 5});
      },
      [](Trace& it) {  // the same view, schema and module a second time in their tables
        it.tensors.push_back(it.tensors[0]);
        it.ops[0].outputs[0].tensor = static_cast<TensorId>(it.tensors.size() - 1);
        it.schemas.push_back(it.schemas[0]);
        it.ops[2].schema = static_cast<SchemaId>(it.schemas.size() - 1);
        it.modules.push_back(it.modules[1]);
        it.ops[2].module = static_cast<ModuleId>(it.modules.size() - 1);
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Trace trace = sample();
    changes[i](trace);
    const ContentHashes other = hash_content(trace);
    EXPECT_EQ(other.program.hex(), hashes.program.hex()) << "change " << i;
    EXPECT_EQ(other.content.hex(), hashes.content.hex()) << "change " << i;
  }
}

using Change = std::function<void(Trace&)>;

/// Changes of the program, one field each.
std::vector<Change> program_changes() {
  std::vector<Change> changes = {
      [](Trace& it) { it.schemas[0].name += "_"; },
      [](Trace& it) { it.schemas[0].overload = "Scalar"; },
      [](Trace& it) { it.schemas[1].text += " "; },
      [](Trace& it) { it.ops[1].schema = 0; },
      [](Trace& it) { it.modules[0] += "."; },
      [](Trace& it) { it.ops[1].module = 1; },
      [](Trace& it) { it.ops[2].module = kNone; },
      [](Trace& it) { it.ops[1].phase = Phase::kForward; },
      [](Trace& it) { std::swap(it.ops[0], it.ops[1]); },
      [](Trace& it) { it.ops[1].args.emplace_back(); },
      [](Trace& it) { it.ops[1].outputs.emplace_back(); },
      [](Trace& it) { it.ops[2].outputs.pop_back(); },
      [](Trace& it) { it.iterations[1].complete = true; },
      [](Trace& it) { it.iterations[0].op_count = 1; },
      [](Trace& it) { it.iterations[1].first_op = 3, it.iterations[1].op_count = 0; },
      [](Trace& it) { it.iterations.push_back({3, 0, true, {}}); },
      [](Trace& it) { it.tensors[0].dtype = DType::kI32; },
      [](Trace& it) { it.tensors[0].requires_grad = false; },
      [](Trace& it) { it.tensors[1].is_wrapped_number = false; },
      [](Trace& it) { it.tensors[1].offset = 3; },
      [](Trace& it) { it.tensors[0].sizes[1] = 3; },
      [](Trace& it) { it.tensors[0].strides[0] = 3; },
      [](Trace& it) { it.tensors[0].sizes.push_back(1), it.tensors[0].strides.push_back(1); },
      [](Trace& it) { it.tensors[1].storage = 0; },  // shares one now
      [](Trace& it) { it.tensors[1].storage = kNone; },
      [](Trace& it) { it.storages[0].size_bytes = 17; },
      [](Trace& it) { it.storages[1].device = "cuda:1"; },
      [](Trace& it) { it.ops[2].args[0].tensor = 1; },
      [](Trace& it) { it.compounds.clear(); },
      [](Trace& it) { it.compounds[0].kind = "sparse_csr"; },
      [](Trace& it) { it.compounds[0].parts[0].first = "index"; },
      [](Trace& it) { it.compounds[0].parts[0].second.tensor = 0; },
      [](Trace& it) { it.compounds[0].parts.pop_back(); },
  };
  const Trace sample = samples::small_trace();
  for (std::size_t i = 0; i < sample.ops[0].args.size(); ++i) {
    const Arg& arg = sample.ops[0].args[i];
    changes.push_back(
        [i](Trace& it) { it.ops[0].args.erase(it.ops[0].args.begin() + static_cast<std::ptrdiff_t>(i)); });
    changes.push_back([i](Trace& it) {
      Arg& changed = it.ops[0].args[i];
      changed.kind = changed.kind == Arg::Kind::kOpaque ? Arg::Kind::kNone : Arg::Kind::kOpaque;
    });
    using enum Arg::Kind;
    if (arg.kind == kInt || arg.kind == kBool || arg.kind == kDType || arg.kind == kLayout || arg.kind == kMemoryFormat)
      changes.push_back([i](Trace& it) { it.ops[0].args[i].integer ^= 1; });
    if (arg.kind == kDouble || arg.kind == kComplex)
      changes.push_back([i](Trace& it) {
        double& real = it.ops[0].args[i].real;  // the lowest bit, also of a NaN
        real = std::bit_cast<double>(std::bit_cast<std::uint64_t>(real) ^ 1);
      });
    if (arg.kind == kComplex) changes.push_back([i](Trace& it) { it.ops[0].args[i].imaginary = 0.0; });
    if (arg.kind == kString || arg.kind == kDevice || arg.kind == kGenerator || arg.kind == kOpaque)
      changes.push_back([i](Trace& it) { it.ops[0].args[i].text += "x"; });
    if (arg.kind == kTensor) changes.push_back([i](Trace& it) { it.ops[0].args[i].tensor = 0; });
    if (arg.kind == kList) changes.push_back([i](Trace& it) { it.ops[0].args[i].list.emplace_back(); });
  }
  return changes;
}

/// Changes of what the program ran on and gave, one field each.
std::vector<Change> content_changes() {
  return {
      [](Trace& it) { it.externals[0].storage = 1; },
      [](Trace& it) { it.externals[2].storage = 3; },  // of another storage that no op uses
      [](Trace& it) { it.externals[0].iteration = 1; },
      [](Trace& it) { it.externals[0].op = 1; },
      [](Trace& it) { it.externals[0].role = Role::kBuffer; },
      [](Trace& it) { it.externals[0].name = "bias"; },
      [](Trace& it) { it.externals[0].blob = 1; },
      [](Trace& it) { it.externals.pop_back(); },
      [](Trace& it) { it.externals.push_back(it.externals[0]); },
      [](Trace& it) { it.final_states[0].storage = 1; },
      [](Trace& it) { it.final_states[2].storage = 2; },
      [](Trace& it) { it.final_states[0].role = Role::kInput; },
      [](Trace& it) { it.final_states[0].name += "x"; },
      [](Trace& it) { it.final_states[0].blob = 2; },
      [](Trace& it) { it.final_states.erase(it.final_states.begin()); },
      [](Trace& it) { it.draws[0].op = 2; },
      [](Trace& it) { it.draws[1].output = 0; },
      [](Trace& it) { it.draws[0].blob = 0; },
      [](Trace& it) { it.draws.pop_back(); },
      [](Trace& it) { it.generators[0].iteration = 1; },
      [](Trace& it) { it.generators[0].device = "cuda:1"; },
      [](Trace& it) { it.generators[0].blob = 1; },
      [](Trace& it) { it.generators.pop_back(); },
      [](Trace& it) { it.outputs[0].iteration = 0; },
      [](Trace& it) { it.outputs[0].name = "hidden"; },
      [](Trace& it) { it.outputs[0].tensor = 1; },
      [](Trace& it) { it.outputs[0].blob = 1; },
      [](Trace& it) { it.outputs.pop_back(); },
      [](Trace& it) { it.iterations[0].losses[0].value = 2.5000000000000004; },
      [](Trace& it) { it.iterations[0].losses[1].value = 0.0; },  // was -0.0
      [](Trace& it) { it.iterations[0].losses[1].tensor = 0; },
      [](Trace& it) { std::swap(it.iterations[0].losses[0], it.iterations[0].losses[1]); },
      [](Trace& it) { it.iterations[0].losses.pop_back(); },
      [](Trace& it) { it.iterations[1].losses.push_back({0, 1.0}); },
      [](Trace& it) { it.blobs[0].hash.bytes[31] ^= 1; },
      [](Trace& it) { it.blobs[1].size_bytes ^= 1; },
      [](Trace& it) { it.storages[2].size_bytes = 501; },
      [](Trace& it) { it.storages[3].device = "cuda:0"; },
  };
}

TEST(ContentHash, EveryChangeOfTheProgramChangesBoth) {
  const ContentHashes hashes = hash_content(sample());
  std::set<std::string> seen = {hashes.program.hex()};
  const std::vector<Change> changes = program_changes();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Trace trace = sample();
    changes[i](trace);
    const ContentHashes other = hash_content(trace);
    EXPECT_NE(other.program, hashes.program) << "change " << i;
    EXPECT_NE(other.content, hashes.content) << "change " << i;
    seen.insert(other.program.hex());
  }
  EXPECT_GT(seen.size(), changes.size() / 2);
}

TEST(ContentHash, EveryChangeOfTheContentChangesItAlone) {
  const ContentHashes hashes = hash_content(sample());
  const std::vector<Change> changes = content_changes();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Trace trace = sample();
    changes[i](trace);
    const ContentHashes other = hash_content(trace);
    EXPECT_EQ(other.program.hex(), hashes.program.hex()) << "change " << i;
    EXPECT_NE(other.content, hashes.content) << "change " << i;
  }
}

TEST(ContentHash, IsTheSameOnEveryMachineAndInEveryVersion) {
  // A change of the canonical form is a change of these two: raise the number in its first text then.
  const ContentHashes hashes = hash_content(samples::small_trace());
  EXPECT_EQ(hashes.program.hex(), "0bc9680036b108e156aae959017d88db99a29b37a70049d994b4073306c0d421");
  EXPECT_EQ(hashes.content.hex(), "32b7dac43e573e2087e660cbb2f0b7861456fd2ea4f27dc8257cc49fc139bd80");
}

}  // namespace
}  // namespace crucible::trace
