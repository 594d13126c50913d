// Runs of equal elements: how distinct ones are numbered, counted and found. See lower_unique.cpp.
#pragma once

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// A row of n elements in which equal ones are neighbours: where runs begin (bool), the number of each element's run
/// from 0, and where the element stood before.
struct Runs {
  Term begins, number, from;
};

/// Along the first dimension: true where an element differs from the one before it, and for the first one. A NaN
/// differs from all.
Expression run_begins(Emitter& e, const Term& x);
/// Along the first dimension: the number of each element's run, given where runs begin.
Expression run_numbers(Emitter& e, const Term& begins);

/// Of a row `x` [n], in its own order or sorted.
Runs runs_of(Emitter& e, const Term& x, bool sorts);
/// Where the first element of each of `count` runs stood: i64 [count].
Expression first_of_runs(Emitter& e, const Runs& runs, std::int64_t count);
/// The number of its run for each element where it stood: i64 [n].
Expression run_of_each(Emitter& e, const Runs& runs);

}  // namespace crucible::aten
