// Digests are taken over a fixed little-endian form of every field, so that they are the same on every machine.
#include "core/memory/certificate.hpp"

#include <fmt/format.h>

namespace crucible::memory {
namespace {

/// Numbers as eight bytes each, collected to be hashed in larger pieces.
class Writer {
 public:
  void put(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    if (bytes_.size() >= kPiece) flush();
  }
  ContentHash finish() {
    flush();
    return hash_.finish();
  }

 private:
  void flush() {
    hash_.update(bytes_);
    bytes_.clear();
  }
  static constexpr std::size_t kPiece = 1 << 16;
  Sha256 hash_;
  std::vector<std::byte> bytes_;
};

}  // namespace

ContentHash digest(const Problem& problem, std::span<const std::uint64_t> offsets) {
  Writer out;
  out.put(1);  // the version of this form
  out.put(problem.period);
  out.put(problem.spaces.size());
  for (const Space& space : problem.spaces) out.put(space.alignment), out.put(space.capacity_bytes);
  out.put(problem.apart.size());
  for (const Apart& pair : problem.apart) out.put(pair.first), out.put(pair.second);
  out.put(problem.buffers.size());
  for (const Buffer& buffer : problem.buffers) {
    out.put(buffer.size_bytes);
    out.put(std::uint64_t{buffer.begin} << 32 | buffer.end);
    out.put(buffer.alignment);
    out.put(buffer.pinned_offset);
    out.put(std::uint64_t{buffer.space} << 32 | buffer.group);
    out.put(buffer.carried ? 1 : 0);
  }
  out.put(offsets.size());
  for (const std::uint64_t offset : offsets) out.put(offset);
  return out.finish();
}

Certificate certify(const Problem& problem, const Solution& solution) {
  Certificate certificate;
  certificate.digest = digest(problem, solution.offsets);
  for (const SpacePlan& plan : solution.spaces) {
    certificate.spaces.push_back({plan.lower_bound_bytes, plan.lower_bound_time, plan.witness, plan.peak_bytes});
  }
  const Result<void> checked = check(problem, solution);
  certificate.is_valid = checked.has_value();
  certificate.verdict = checked ? "valid" : checked.error().message;
  return certificate;
}

Result<void> check_certificate(const Problem& problem, const Solution& solution, const Certificate& certificate) {
  const auto refused = [](std::string message) {
    return Error{ErrorCode::kCheckFailed, "memory certificate: " + std::move(message)};
  };
  const ContentHash found = digest(problem, solution.offsets);
  if (certificate.digest != found) {
    return refused(
        fmt::format("it was made for the plan {} but this one is {}: plan again, or use the certificate that "
                    "came with this plan",
                    certificate.digest.hex(), found.hex()));
  }
  if (!certificate.is_valid) return refused("it says that the plan is not valid: " + certificate.verdict);
  CRUCIBLE_TRY_VOID(check(problem, solution));
  if (certify(problem, solution) != certificate) return refused("its facts are not those of the plan");
  return {};
}

}  // namespace crucible::memory
