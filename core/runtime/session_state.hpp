// What a session owns; shared by session.cpp (running) and verify.cpp (judging), seen by nobody else.
#pragma once

#include <optional>
#include <string>

#include "core/runtime/session.hpp"

namespace crucible::runtime {

struct Session::State {
  std::shared_ptr<const graph::Program> program;  // shared with the caller, who prints it
  std::shared_ptr<const trace::BlobStore> blobs;  // shared: the mapped file lives as long as its last reader
  std::shared_ptr<backend::Device> device;        // shared: see plugins/loader
  kernel::Schedule schedule;
  Placement placement;
  bool poison = false;
  std::string library_failure;
  std::uint32_t next_iteration = 0;
  std::vector<std::uint32_t> op_of_step;  // index in the backend plan
  // Destroyed in reverse: the plan before the arena and the module that it uses.
  std::optional<backend::Module> module;
  std::optional<backend::Buffer> arena;
  std::optional<backend::Plan> plan;

  Result<void> make_schedule(bool fuse);
  Result<void> compile();
  Result<void> build_plan();
  Result<void> load_states();
  Result<void> load_constants();
  Result<void> load_iteration(std::uint32_t index);
  Result<void> poison_transient();
  Result<void> write_blob(graph::ValueId value, std::uint32_t blob);
  Result<double> read_output(const graph::Output& output) const;
  Result<StateDifference> compare_state(const graph::State& state) const;
  std::uint64_t offset_of(graph::ValueId value) const;
  std::string name_of(graph::ValueId value) const;
  static std::uint64_t bytes_of(const graph::Value& value);
};

}  // namespace crucible::runtime
