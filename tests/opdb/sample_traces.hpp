// A recording of many samples (record_samples.py) cut into one recording per sample.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::opdb {

/// The numbers K for which `whole` has ops in a module "sample_K" or below it, ascending.
std::vector<std::uint32_t> sample_numbers(const trace::Trace& whole);

/// Everything of `whole` that the ops of sample `number` need: its ops in every iteration, the bytes that entered for
/// the storages that they touch, their draws, their final states. Blobs, tensors and names stay those of `whole`.
trace::Trace cut_sample(const trace::Trace& whole, std::uint32_t number);

}  // namespace crucible::opdb
