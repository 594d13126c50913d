// A group as words (content_words.hpp): everything of it but the names of its values and ops.
#pragma once

#include "core/kernel/fuse/content_words.hpp"
#include "core/kernel/fuse/nest.hpp"

namespace crucible::kernel {

inline void write_access(WordWriter& write, const Access& access, Numbering& values) {
  write.pair(access.value == graph::kNone ? graph::kNone : values.of(access.value),
             static_cast<std::uint64_t>(access.type));
  write.number(static_cast<std::uint64_t>(access.offset));
  write.numbers(access.strides);
}

/// Values are met in the order of the members: their operands, then the result.
inline void write_group(WordWriter& write, const Group& group, Numbering& values) {
  write.numbers(group.sizes);
  write.flags(group.reduced);
  write.number(group.members.size());
  for (const Member& member : group.members) {
    write.pair(static_cast<std::uint64_t>(member.lookup) << 1 | static_cast<std::uint64_t>(member.over_rows),
               member.inputs.size());
    write.number(static_cast<std::uint64_t>(member.row_stride));
    for (const Access& input : member.inputs) write_access(write, input, values);
    std::vector<bool> generated;
    for (const graph::OpId generator : member.generators) generated.push_back(generator != graph::kNone);
    write.flags(generated);
    write_access(write, member.output, values);
    write.pair(static_cast<std::uint64_t>(member.order.chains), member.order.in_sequence);
    if (!member.order.is_named()) continue;
    write_access(write, member.order.block, values);
    write_access(write, member.order.place, values);
  }
}

}  // namespace crucible::kernel
