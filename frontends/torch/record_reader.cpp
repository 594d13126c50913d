// The inverse of Encoder, item by item.
#include "frontends/torch/record_reader.hpp"

#include <c10/core/Device.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "frontends/torch/log.hpp"

namespace crucible::recorder {

namespace {

using trace::Arg;

std::string device_text(std::uint64_t word) {
  const auto type = static_cast<c10::DeviceType>(static_cast<std::uint8_t>(word));
  const auto index =
      static_cast<c10::DeviceIndex>(static_cast<std::int32_t>(static_cast<std::uint16_t>(word >> 8)) - 1);
  return c10::Device(type, index).str();
}

Arg arg_of(Arg::Kind kind, std::int64_t integer = 0) {
  Arg arg;
  arg.kind = kind;
  arg.integer = integer;
  return arg;
}

Arg text_arg(Arg::Kind kind, std::string text) {
  Arg arg;
  arg.kind = kind;
  arg.text = std::move(text);
  return arg;
}

}  // namespace

bool RecordReader::take_outputs_mark() {
  if (position_ == end_ || (*position_ & 0xff) != static_cast<std::uint64_t>(Tag::kOutputs)) return false;
  ++position_;
  return true;
}

std::string RecordReader::read_text(std::uint64_t size) {
  std::string text(size, '\0');
  std::memcpy(text.data(), position_, size);
  position_ += (size + 7) / 8;
  return text;
}

Arg RecordReader::read_list(std::uint64_t count, bool integers) {
  Arg arg = arg_of(Arg::Kind::kList);
  arg.list.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    arg.list.push_back(integers ? arg_of(Arg::Kind::kInt, static_cast<std::int64_t>(*position_++)) : read());
  }
  return arg;
}

Arg RecordReader::read_tensor(std::uint64_t head) {
  trace::Tensor tensor;
  tensor.dtype = static_cast<DType>(head >> 8 & 0xff);
  const std::uint64_t flags = head >> 16 & 0xff, dimensions = head >> 24 & 0xff;
  tensor.storage = static_cast<std::uint32_t>(head >> 32);
  tensor.requires_grad = (flags & kRequiresGrad) != 0;
  tensor.is_wrapped_number = (flags & kWrappedNumber) != 0;
  if ((flags & kHasOffset) != 0) tensor.offset = static_cast<std::int64_t>(*position_++);
  if ((flags & kNewSize) != 0) {
    const std::uint64_t word = *position_++;
    learn_(tensor.storage, word & 0xffffffffffffull, device_text((word >> 48 & 0xff) | (word >> 56) << 8));
  }
  const std::size_t numbers = (flags & kDense) != 0 ? dimensions : 2 * dimensions;
  std::vector<std::int64_t> values(numbers);
  for (std::size_t i = 0; i < numbers; ++i) {
    values[i] = (flags & kWide) != 0 ? static_cast<std::int64_t>(*position_++)
                                     : static_cast<std::int64_t>(position_[i / 2] >> (i % 2 * 32) & 0xffffffffu);
  }
  if ((flags & kWide) == 0) position_ += (numbers + 1) / 2;
  tensor.sizes.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(dimensions));
  tensor.strides.assign(values.begin() + static_cast<std::ptrdiff_t>(dimensions), values.end());
  if ((flags & kDense) != 0) {
    tensor.strides.resize(dimensions);
    std::int64_t stride = 1;
    for (std::size_t i = dimensions; i-- > 0;) {
      tensor.strides[i] = stride;
      stride *= std::max<std::int64_t>(tensor.sizes[i], 1);
    }
  }
  Arg arg = arg_of(Arg::Kind::kTensor);
  arg.tensor = intern_(std::move(tensor));
  return arg;
}

Arg RecordReader::read() {
  const std::uint64_t head = *position_++;
  const std::uint64_t payload = head >> 8;
  switch (static_cast<Tag>(head & 0xff)) {
    case Tag::kNone:
    case Tag::kOutputs: return {};
    case Tag::kBool: return arg_of(Arg::Kind::kBool, static_cast<std::int64_t>(payload));
    case Tag::kInt: return arg_of(Arg::Kind::kInt, static_cast<std::int64_t>(*position_++));
    case Tag::kDouble: {
      Arg arg = arg_of(Arg::Kind::kDouble);
      arg.real = std::bit_cast<double>(*position_++);
      return arg;
    }
    case Tag::kComplex: {
      Arg arg = arg_of(Arg::Kind::kComplex);
      arg.real = std::bit_cast<double>(*position_++);
      arg.imaginary = std::bit_cast<double>(*position_++);
      return arg;
    }
    case Tag::kString: return text_arg(Arg::Kind::kString, read_text(payload));
    case Tag::kDType: return arg_of(Arg::Kind::kDType, static_cast<std::int64_t>(payload));
    case Tag::kDevice: return text_arg(Arg::Kind::kDevice, device_text(payload));
    case Tag::kLayout: return arg_of(Arg::Kind::kLayout, static_cast<std::int64_t>(payload));
    case Tag::kMemoryFormat: return arg_of(Arg::Kind::kMemoryFormat, static_cast<std::int64_t>(payload));
    case Tag::kGenerator:
      return text_arg(Arg::Kind::kGenerator,
                      ((payload >> 24 & 1) != 0 ? "default " : "") + device_text(payload & 0xffffff));
    case Tag::kTensor: return read_tensor(head);
    case Tag::kUndefinedTensor: return arg_of(Arg::Kind::kUndefinedTensor);
    case Tag::kList: return read_list(payload, false);
    case Tag::kIntList: return read_list(payload, true);
    case Tag::kOpaque: return text_arg(Arg::Kind::kOpaque, read_text(payload));
    case Tag::kCompound: return compound_(*this, payload);
  }
  return {};
}

}  // namespace crucible::recorder
