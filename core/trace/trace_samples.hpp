// For the tests of this folder: traces to write, a text of every field to compare with, files to damage.
// Not part of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/container.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace::samples {

/// A folder of its own under the system's temporary one, removed with everything in it at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  /// Names in it, sorted, one per line.
  std::string listing() const;

 private:
  std::filesystem::path path_;
};

/// Every Arg kind, nested and empty lists, -0.0, NaN payloads, extreme integers, non-ASCII text; three small blobs.
Trace small_trace();

/// Random in every field and consistent; the same for the same seed. About `ops` ops.
Trace random_trace(std::uint64_t seed, std::size_t ops);

/// Two complete iterations of one op that adds a scalar to a tensor, with the scalars given.
Trace scalar_trace(const std::vector<double>& scalars);

/// Every field of every table and every blob's bytes as text, doubles as their bits.
std::string describe(const Trace& trace);

/// Puts the tables of `trace` into `writer` as a recorder would: an iteration's ops and blobs, then its end; with
/// `end_last` false the last iteration stays unfinished. Tables that name iterations come after the last one.
void stream(const Trace& trace, StreamWriter& writer, bool end_last = true);

std::vector<std::byte> read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// `file` with some sections' uncompressed content replaced or added, and header, table and checksums made to fit.
std::vector<std::byte> rebuild(std::span<const std::byte> file,
                               const std::map<SectionId, std::vector<std::byte>>& contents);

/// The uncompressed content of a section of a good file.
std::vector<std::byte> content_of(std::span<const std::byte> file, SectionId id);

}  // namespace crucible::trace::samples
