// Composite operators that write memory by themselves. A composite hands on to other operators, which are recorded;
// these few do so only in some calls and fill what `empty` returned with a loop of their own in all others. Those calls
// are recorded as one op, or made of operators in another way (ctc_loss). Which operators they are was found by
// tests/opdb/scan_composites.py, which tries all.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <vector>

#include "frontends/torch/operators.hpp"

namespace crucible::recorder {

/// Whether this call of a composite operator writes by itself, so that it is to be recorded whole.
bool writes_by_itself(const Operator& op, c10::ArrayRef<c10::IValue> arguments);

/// Runs a composite that writes by itself as operators that do not, where there is such a way for this one; below is
/// where the composite runs. False: there is none, and nothing was done.
bool run_by_operators(const c10::OperatorHandle& handle, c10::DispatchKeySet below, torch::jit::Stack* stack);

/// Registers kernels above the key of the recorder, where such a call would otherwise run without passing it. They hold
/// as long as what is appended to `handles` lives.
void register_whole_composites(std::vector<c10::RegistrationHandleRAII>& handles);

}  // namespace crucible::recorder
