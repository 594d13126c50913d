// Arguments that are objects of the framework and no values: process groups, reductions, handles of running work.
#pragma once

#include <ATen/core/ivalue.h>

#include "frontends/torch/op_scope.hpp"

namespace crucible::recorder {

/// A reduction is written as its name, as a string ("sum"); a process group as opaque text with its name, this
/// process's rank in it and its size; any other object as opaque with its type's name. `value` is an object.
void encode_object(Encoder& encoder, const c10::IValue& value);

}  // namespace crucible::recorder
