// Descriptors of the emulated cuDNN: attributes by number, checked as they are set and when the descriptor is
// finalized. What a descriptor refers to has to be finalized before it, and has to live as long as it is used.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn_graph.h>
#pragma GCC visibility pop

#include <cstddef>
#include <cstring>
#include <map>
#include <vector>

namespace crucible::emulator {

struct CudnnDescriptor {
  struct Value {
    cudnnBackendAttributeType_t type;
    std::vector<std::byte> bytes;
  };
  cudnnBackendDescriptorType_t type;
  bool is_finalized = false;
  std::map<int, Value> values;
  int engine = -1;  // of an engine or its configuration

  /// All elements of an attribute that is set; of the type that the table of attributes has.
  template <class T>
  std::vector<T> all(int attribute) const {
    std::vector<T> result;
    const auto found = values.find(attribute);
    if (found == values.end()) return result;
    result.resize(found->second.bytes.size() / sizeof(T));
    std::memcpy(result.data(), found->second.bytes.data(), found->second.bytes.size());
    return result;
  }
  template <class T>
  T one(int attribute) const {
    return all<T>(attribute).at(0);
  }
  /// What an attribute refers to; null when it does not live any more or is not finalized.
  const CudnnDescriptor* part(int attribute) const;
  /// The same for all that it refers to.
  std::vector<const CudnnDescriptor*> parts(int attribute) const;
};

/// Null for what is no living descriptor. Threads: any.
CudnnDescriptor* living_descriptor(const void* handle);

/// BAD_PARAM_..., or success: whether everything that the type of descriptor needs is set, and what it refers to lives
/// and is finalized.
cudnnStatus_t check_complete(const CudnnDescriptor& descriptor);

}  // namespace crucible::emulator
