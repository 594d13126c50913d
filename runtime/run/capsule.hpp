// A capsule: a few ops of a program with the bytes that they read in one iteration, as a file of its own. It is what is
// left of a run whose results differ between two backends: one command replays it on any of them, without the
// recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "runtime/run/session.hpp"
#include "runtime/judge/side_by_side.hpp"
#include "core/trace/memory_blob_store.hpp"

namespace crucible::runtime {

struct Capsule {
  graph::Program program;  // one iteration without states: what it reads are inputs, what its ops compute are outputs
                           // with recorded bytes
  std::shared_ptr<trace::MemoryBlobStore> blobs;  // shared with the sessions that load from it
  std::string origin;  // where it comes from, in words
};

/// `op` and the ops that computed what it reads, up to `depth` ops back, in the order of the program; not more than
/// `most`, the nearest first.
std::vector<graph::OpId> ops_behind(const graph::Program& program, graph::OpId op, std::uint32_t depth,
                                    std::size_t most = 256);

/// The same with the ops that read what these compute, and so on: a neighbour is `depth` steps away in either
/// direction.
std::vector<graph::OpId> ops_around(const graph::Program& program, graph::OpId op, std::uint32_t depth,
                                    std::size_t most = 256);

/// Cuts these ops out of `program` as they ran in `iteration` on `session`, which was created with
/// with_every_result(program) (side_by_side.hpp); it is reset and runs anew up to that iteration. The recorded bytes of
/// the outputs are the session's own. `ops` are in ascending order. Errors: those of running and reading; kInternal
/// when the cut breaks a rule of graph::verify().
Result<Capsule> cut_capsule(const graph::Program& program, const trace::BlobStore& blobs, Session& session,
                            std::uint32_t iteration, std::span<const graph::OpId> ops);

/// Binds a program to one of the two devices, as they were bound when the difference was found.
using OpenSession = std::function<Result<std::unique_ptr<Session>>(std::shared_ptr<const graph::Program>,
                                                                   std::shared_ptr<const trace::BlobStore>)>;

struct CutCapsule {
  Capsule capsule;
  bool is_reproduced = false;  // the capsule alone differs too
};

/// The smallest of a few cuts that shows the difference again when it runs alone on both: the op, then it and those up
/// to 1, 2, 4, ... ops behind it, or around it, for a difference may come from how an op is fused with others, those
/// that read it too. When none does, the last one. `session` is the one that cut_capsule() takes. Errors: those of
/// cutting, opening and running.
Result<CutCapsule> cut_smallest_capsule(const graph::Program& program, const trace::BlobStore& blobs, Session& session,
                                        const ResultDifference& difference, const OpenSession& open_a,
                                        const OpenSession& open_b, const SideBySideOptions& options);

/// Writes it beside `path` and renames. Errors: kBadInput naming the path (disk full, no such folder).
Result<void> write_capsule(const Capsule& capsule, const std::filesystem::path& path);

/// Whether the file begins as write_capsule()'s do; false for one that cannot be read.
bool is_capsule(const std::filesystem::path& path);

/// Errors: kBadInput naming the path and what is wrong: no capsule, cut short, damaged, of a newer version, too large
/// numbers.
Result<Capsule> read_capsule(const std::filesystem::path& path);
/// The same from bytes in memory; `name` stands for the path in errors.
Result<Capsule> parse_capsule(std::span<const std::byte> bytes, const std::string& name);
/// What write_capsule() writes.
Result<std::vector<std::byte>> capsule_bytes(const Capsule& capsule);

}  // namespace crucible::runtime
