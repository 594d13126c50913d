// What the handles of graphs stand for.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tests/emulators/amd/machine.hpp"

enum class NodeKind { kKernel, kCopy, kFill, kEmpty };

struct hipGraphNode {
  ihipGraph* graph = nullptr;
  crucible::emulator::NodeId id = 0;
  NodeKind kind = NodeKind::kEmpty;
};

struct ihipGraph {
  crucible::emulator::AmdDevice* device = nullptr;
  crucible::emulator::Graph graph;
  std::vector<std::unique_ptr<hipGraphNode>> nodes;
  std::vector<std::vector<crucible::emulator::NodeId>> dependencies;
  std::vector<crucible::emulator::NodeWork> work;  // for hipGraphExecUpdate
};

struct hipGraphExec {
  crucible::emulator::AmdDevice* device = nullptr;
  const ihipGraph* graph = nullptr;  // only compared: it may be destroyed
  std::vector<NodeKind> kinds;
  std::vector<std::vector<crucible::emulator::NodeId>> dependencies;
  std::optional<crucible::emulator::ExecutableGraph> executable;
};
