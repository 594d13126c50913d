// break_field for recordings: what the tables of a .crtrace file say.
#include <algorithm>

#include "tests/fuzz/mutate.hpp"

namespace crucible::fuzz {
namespace {

std::uint32_t other_id(Draw& draw, std::size_t count) {
  return draw.one_in(6) ? trace::kNone : static_cast<std::uint32_t>(draw.below(count + 1));
}

void break_arg(trace::Trace& trace, trace::Arg& arg, Draw& draw) {
  if (!arg.list.empty() && draw.one_in(2)) return break_arg(trace, arg.list[draw.below(arg.list.size())], draw);
  switch (draw.below(5)) {
    case 0:
      arg.kind = static_cast<trace::Arg::Kind>(draw.below(static_cast<std::size_t>(trace::Arg::Kind::kOpaque) + 1));
      break;
    case 1:
      arg.integer = draw.other_than(arg.integer);
      break;
    case 2:
      arg.real = static_cast<double>(draw.other_than(static_cast<std::int64_t>(1)));
      break;
    case 3:
      arg.tensor = other_id(draw, trace.tensors.size());
      break;
    default:
      if (!arg.list.empty() && draw.one_in(2)) {
        arg.list.pop_back();
      } else {
        const trace::Arg copy = arg;
        arg.list.push_back(copy);
      }
  }
}

std::string break_tensor(trace::Trace& trace, Draw& draw) {
  if (trace.tensors.empty()) return "nothing";
  trace::Tensor& tensor = trace.tensors[draw.below(trace.tensors.size())];
  const auto change = [&](std::vector<std::int64_t>& numbers) {
    if (numbers.empty() || draw.one_in(5)) return numbers.push_back(static_cast<std::int64_t>(draw.below(4)));
    std::int64_t& number = numbers[draw.below(numbers.size())];
    number = draw.other_than(number);
  };
  switch (draw.below(6)) {
    case 0:
      tensor.offset = draw.other_than(tensor.offset);
      return "a tensor's offset";
    case 1:
      change(tensor.sizes);
      return "a tensor's sizes";
    case 2:
      change(tensor.strides);
      return "a tensor's strides";
    case 3:
      tensor.dtype = static_cast<DType>(draw.below(13) == 12 ? 255 : draw.below(12));
      return "a tensor's dtype";
    case 4:
      tensor.storage = other_id(draw, trace.storages.size());
      return "a tensor's storage";
    default:
      tensor.is_wrapped_number = !tensor.is_wrapped_number;
      return "whether a tensor is a number";
  }
}

std::string break_op(trace::Trace& trace, Draw& draw) {
  if (trace.ops.empty()) return "nothing";
  trace::Op& op = trace.ops[draw.below(trace.ops.size())];
  std::vector<trace::Arg>& list = draw.one_in(3) ? op.outputs : op.args;
  switch (draw.below(5)) {
    case 0:
      op.schema = other_id(draw, trace.schemas.size());
      return "an op's schema";
    case 1:
      if (!list.empty()) list.pop_back();
      return "an op's arguments";
    case 2:
      op.phase = static_cast<trace::Phase>(draw.below(3));
      return "an op's phase";
    default:
      if (!list.empty()) break_arg(trace, list[draw.below(list.size())], draw);
      return "an argument";
  }
}

}  // namespace

std::string break_field(trace::Trace& trace, Draw& draw) {
  switch (draw.below(8)) {
    case 0:
    case 1:
    case 2:
      return break_tensor(trace, draw);
    case 3:
    case 4:
      return break_op(trace, draw);
    case 5:
      if (!trace.storages.empty()) {
        trace::Storage& storage = trace.storages[draw.below(trace.storages.size())];
        storage.size_bytes = static_cast<std::uint64_t>(draw.other_than(static_cast<std::int64_t>(storage.size_bytes)));
      }
      return "a storage's bytes";
    case 6:
      if (!trace.externals.empty()) {
        trace::External& external = trace.externals[draw.below(trace.externals.size())];
        if (draw.one_in(2)) {
          external.storage = other_id(draw, trace.storages.size());
        } else {
          external.blob = other_id(draw, trace.blobs.size());
        }
      }
      return "what enters";
    default:
      if (!trace.schemas.empty()) {
        trace::Schema& schema = trace.schemas[draw.below(trace.schemas.size())];
        if (!schema.text.empty()) schema.text[draw.below(schema.text.size())] = static_cast<char>(draw.below(256));
      }
      return "a schema's text";
  }
}

}  // namespace crucible::fuzz
