// Runs of equal elements: see runs.hpp.
#include "frontends/aten/reduction/runs.hpp"

#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {

using graph::OpKind;

Expression run_begins(Emitter& e, const Term& x) {
  const std::int64_t length = x.size(0);
  if (length == 0) return e.fill(Term::integer(1), x.sizes(), DType::kBool);
  const Expression first = e.fill(Term::integer(1), slice(x, 0, 0, 1).sizes(), DType::kBool);
  if (length == 1) return first;
  return e.concat({first, e.binary(OpKind::kNotEqual, slice(x, 0, 1, length - 1), slice(x, 0, 0, length - 1))}, 0);
}

Expression run_numbers(Emitter& e, const Term& begins) {
  const Term count = running_total(e, OpKind::kScanSum, e.cast(begins, DType::kI64), 0);
  return e.binary(OpKind::kSubtract, count, Term::integer(1));
}

Runs runs_of(Emitter& e, const Term& x, bool sorts) {
  const Placed placed = sorts ? sorted(e, x, 0, false) : Placed{x, e.position(0, x.sizes())};
  const Expression begins = run_begins(e, placed.values);
  return {begins, run_numbers(e, begins), placed.index};
}

Expression first_of_runs(Emitter& e, const Runs& runs, std::int64_t count) {
  const Expression place = e.select(runs.begins, runs.number, Term::integer(-1));
  return e.put(OpKind::kPutSet, e.fill(Term::integer(0), {count}, DType::kI64), place, runs.from);
}

Expression run_of_each(Emitter& e, const Runs& runs) {
  return e.put(OpKind::kPutSet, e.fill(Term::integer(0), runs.from.sizes(), DType::kI64), runs.from, runs.number);
}

}  // namespace crucible::aten
