// Graphs of operations as the emulated cuDNN reads them: each operation with its tensors, and what the forms of an
// attention have in common, from a tensor back to what makes it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/emulators/nvidia/cudnn_attention.hpp"

namespace crucible::emulator {

using Sizes = std::array<std::int64_t, 4>;

Sizes four(const CudnnDescriptor& descriptor, int attribute);
bool flag(const CudnnDescriptor& tensor, int attribute);
std::int64_t id_of(const CudnnDescriptor& tensor);
bool is_virtual(const CudnnDescriptor& tensor);
bool has_type(const CudnnDescriptor& tensor, cudnnDataType_t type);
/// Given by value: one f32.
bool is_number(const CudnnDescriptor* tensor);

/// An operation with its tensors: null where it has none, or where they do not live any more.
struct CudnnNode {
  cudnnBackendDescriptorType_t type;
  int mode = -1;  // of a pointwise operation or a reduction
  std::int64_t axis = -1;
  const CudnnDescriptor *x = nullptr, *b = nullptr, *t = nullptr, *y = nullptr;
};

/// Nothing for an operation that no form has, or that computes in anything but f32 where that is asked for.
std::optional<CudnnNode> read_node(const CudnnDescriptor& operation);

/// The operations of one graph. What asks for a node of a kind says that the form has it; all of them must be used up.
class CudnnNodes {
 public:
  explicit CudnnNodes(std::vector<CudnnNode> nodes) : nodes_(std::move(nodes)) {}

 protected:
  /// The node that makes a virtual tensor; each may be asked for as often as the form has it.
  const CudnnNode* producer(const CudnnDescriptor& tensor) const;
  const CudnnNode* pointwise(const CudnnDescriptor& tensor, int mode);
  const CudnnNode* product(const CudnnDescriptor& tensor);
  bool is_reduced(const CudnnDescriptor& tensor, int mode, const CudnnDescriptor& of);
  /// What is masked and scaled: the product of queries and keys.
  const CudnnNode* find_scores(const CudnnDescriptor& tensor);
  /// The row's number is at least the column's.
  bool is_causal(const CudnnDescriptor& tensor, const CudnnDescriptor& of);
  /// False for what is no tensor of the graph's type that lies in memory.
  bool take(AttentionOperand& operand, const CudnnDescriptor& tensor);
  bool take_log_sums(const CudnnDescriptor& tensor);
  /// With the last two dimensions in turn.
  bool take_turned(AttentionOperand& operand, const CudnnDescriptor& tensor);
  /// q, k, v and o, each of sizes that fit the scores'.
  bool fits(const CudnnDescriptor& scores) const;
  void take_type(const CudnnDescriptor& tensor);

  std::vector<CudnnNode> nodes_;
  AttentionGraph found_;
  cudnnDataType_t type_ = CUDNN_DATA_HALF;
  std::size_t used_ = 0;
};

/// An element of the graph's type, and what that type has of a number.
float at(const AttentionGraph& attention, const AttentionOperand& operand, const Sizes& where);
float rounded(ElementType type, float value);

/// Nothing for what is none.
std::optional<AttentionGraph> match_attention_backward(std::vector<CudnnNode> nodes);

}  // namespace crucible::emulator
