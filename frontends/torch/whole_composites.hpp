// Composite operators that write memory by themselves. A composite hands on to other operators, which are recorded; these few
// do so only in some calls and fill what `empty` returned with a loop of their own in all others. Those calls are recorded as
// one op. Which operators they are was found by tests/opdb/scan_composites.py, which tries all.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "frontends/torch/operators.hpp"

namespace crucible::recorder {

/// Whether this call of a composite operator writes by itself, so that it is to be recorded whole.
bool writes_by_itself(const Operator& op, c10::ArrayRef<c10::IValue> arguments);

/// Registers kernels above the key of the recorder, where such a call would otherwise run without passing it. They hold as
/// long as what is appended to `handles` lives.
void register_whole_composites(std::vector<c10::RegistrationHandleRAII>& handles);

}  // namespace crucible::recorder
