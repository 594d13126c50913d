// Storages that Python copies as bytes (`copy.deepcopy`): see Alignment::read_as_real.
#include <unordered_set>

#include "frontends/aten/recording/align_parts.hpp"

namespace crucible::aten {

std::unordered_map<trace::StorageId, DType> read_as_real(const trace::Trace& trace) {
  std::unordered_set<trace::StorageId> bytes;
  for (const trace::Tensor& tensor : trace.tensors) {
    if (tensor.dtype == DType::kU8) bytes.insert(tensor.storage);
  }
  std::unordered_map<trace::StorageId, DType> found;
  for (const trace::Tensor& tensor : trace.tensors) {
    if (is_floating(tensor.dtype) && bytes.contains(tensor.storage)) found.emplace(tensor.storage, tensor.dtype);
  }
  return found;
}

}  // namespace crucible::aten
