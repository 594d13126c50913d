// Sums on other devices: int64 sums of columns and of rows of the bytes taken as integers, by the framework's own ops.
#include "frontends/torch/device_bytes.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <map>

#include "core/base/hash.hpp"

namespace crucible::recorder {

namespace {

constexpr std::int64_t kColumns = 64;

std::uint64_t number_of(std::span<const std::int64_t> sums) { return checksum64(std::as_bytes(sums)); }

template <class Element>
void add_sums(std::span<const std::byte> bytes, std::vector<std::int64_t>& sums) {
  const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(Element));
  const std::int64_t rows = count / kColumns;
  const auto at = [bytes](std::int64_t i) {
    Element element;
    std::memcpy(&element, bytes.data() + static_cast<std::size_t>(i) * sizeof(Element), sizeof(Element));
    return static_cast<std::int64_t>(element);
  };
  if (rows > 0) {
    std::vector<std::int64_t> columns(kColumns), runs(kColumns);
    for (std::int64_t i = 0; i < rows * kColumns; ++i) {
      columns[static_cast<std::size_t>(i % kColumns)] += at(i);
      runs[static_cast<std::size_t>(i / rows)] += at(i);
    }
    sums.insert(sums.end(), columns.begin(), columns.end());
    sums.insert(sums.end(), runs.begin(), runs.end());
  }
  for (std::int64_t i = rows * kColumns; i < count; ++i) sums.push_back(at(i));
}

}  // namespace

bool is_elsewhere(const c10::StorageImpl& storage) {
  return !storage.device().is_cpu() && !storage.device().is_meta() && storage.data() != nullptr &&
         storage.nbytes() != 0;
}

at::Tensor bytes_of(c10::StorageImpl* storage) {
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage->device()))
      .set_(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)));
}

void wait_for_device_of(const c10::StorageImpl& storage) {
  const c10::Device device = storage.device();
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

at::Tensor queue_sums(c10::StorageImpl* storage) {
  const PlainOps plain;
  at::Tensor elements = bytes_of(storage);
  if (storage->nbytes() % sizeof(std::int32_t) == 0) elements = elements.view(at::kInt);
  const std::int64_t rows = elements.numel() / kColumns;
  std::vector<at::Tensor> parts;
  if (rows > 0) {
    const at::Tensor body = elements.narrow(0, 0, rows * kColumns);
    parts.push_back(body.view({rows, kColumns}).sum(0, false, at::kLong));
    parts.push_back(body.view({kColumns, rows}).sum(1, false, at::kLong));
  }
  if (const std::int64_t rest = elements.numel() - rows * kColumns; rest > 0)
    parts.push_back(elements.narrow(0, rows * kColumns, rest).to(at::kLong));
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

std::vector<std::uint64_t> fetch_sums(const std::vector<at::Tensor>& sums) {
  std::map<int, std::vector<std::size_t>> by_device;
  for (std::size_t i = 0; i < sums.size(); ++i) by_device[sums[i].device().index()].push_back(i);
  std::vector<std::uint64_t> numbers(sums.size());
  const PlainOps plain;
  for (const auto& [device, places] : by_device) {
    std::vector<at::Tensor> parts;
    for (const std::size_t place : places) parts.push_back(sums[place]);
    const at::Tensor here = (parts.size() == 1 ? parts.front() : at::cat(parts)).to(at::kCPU).contiguous();
    const std::int64_t* next = here.const_data_ptr<std::int64_t>();
    for (const std::size_t place : places) {
      const auto length = static_cast<std::size_t>(sums[place].numel());
      numbers[place] = number_of({next, length});
      next += length;
    }
  }
  return numbers;
}

std::uint64_t sums_of(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> sums;
  if (bytes.size() % sizeof(std::int32_t) == 0) {
    add_sums<std::int32_t>(bytes, sums);
  } else {
    add_sums<std::uint8_t>(bytes, sums);
  }
  return number_of(sums);
}

}  // namespace crucible::recorder
