#include "runtime/judge/trial_verdicts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "core/base/file_owners.hpp"
#include "core/base/hash.hpp"
#include "core/base/output.hpp"
#include "runtime/run/device_identity.hpp"

namespace crucible::runtime {
namespace {

constexpr std::string_view kRecord = "crucible kernel trial 2";
constexpr std::string_view kPassed = "passed";
constexpr std::uintmax_t kMostBytes = 8 << 20;  // some 100,000 kernels; then the file begins anew
constexpr std::size_t kKeyLength = 64;

std::string digest(std::span<const std::byte> bytes) { return sha256(bytes).hex(); }

}  // namespace

TrialVerdicts::TrialVerdicts(const std::filesystem::path& folder, const backend::Device& device,
                             kernel::Numerics numerics) {
  if (folder.empty()) return;
  std::error_code error;
  const std::filesystem::path file = folder / "verdicts";
  for (const std::filesystem::path& place : {folder, file}) {
    if (std::filesystem::exists(place, error) && !doubts_about(place, "it").empty())
      return;  // verdicts that others can write are none
  }
  file_ = file;
  identity_ = fmt::format("{}\n{}{}\n", kRecord, identity_of(device),
                          numerics == kernel::Numerics::kStrict ? "strict" : "fast");
  read();
}

void TrialVerdicts::keep() {
  if (fresh_.empty()) return;
  const std::string lines = std::exchange(fresh_, {});
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  const std::uintmax_t size = std::filesystem::file_size(file_, error);
  if (!error && size > kMostBytes) {
    (void)write_output(file_, lines, kOwnerOnly);
    return;
  }
  const Result<int> descriptor = open_to_append(file_, kOwnerOnly);
  if (!descriptor) return;
  // In one write, which no other process' lines come between; one that is cut off ends at the newline that all begin
  // with.
  while (write(*descriptor, lines.data(), lines.size()) < 0 && errno == EINTR) continue;
  close(*descriptor);
}

std::string TrialVerdicts::key_of(const backend::KernelSource& kernel, std::string_view binary) const {
  if (file_.empty() || binary.empty()) return {};
  const std::string whole = fmt::format("{}{}\n{}\n{}\n", identity_, kernel.name, digest(kernel.ir), binary);
  return digest(std::as_bytes(std::span(whole)));
}

std::optional<std::string> TrialVerdicts::find(const std::string& key) const {
  const auto found = known_.find(key);
  if (key.empty() || found == known_.end()) return std::nullopt;
  return found->second == kPassed ? std::string() : found->second;
}

void TrialVerdicts::note(const std::string& key, std::string_view what) {
  if (key.empty()) return;
  std::string line = fmt::format("\n{} {}\n", key, what.empty() ? kPassed : what);
  std::replace(line.begin() + 1, line.end() - 1, '\n', ' ');
  fresh_ += line;
  known_.insert_or_assign(key, line.substr(kKeyLength + 2, line.size() - kKeyLength - 3));
}

void TrialVerdicts::read() {
  std::ifstream stream(file_, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  std::string_view left = text;
  for (std::size_t end = left.find('\n'); end != std::string_view::npos;
       left.remove_prefix(end + 1), end = left.find('\n')) {
    const std::string_view line = left.substr(0, end);
    if (line.size() > kKeyLength + 1 && line[kKeyLength] == ' ')
      known_.insert_or_assign(std::string(line.substr(0, kKeyLength)), line.substr(kKeyLength + 1));
  }
}

TrialVerdicts& VerdictsByDevice::of(const std::filesystem::path& folder, const backend::Device& device,
                                    kernel::Numerics numerics) {
  std::unique_ptr<TrialVerdicts>& its = verdicts_[&device];
  if (!its) its = std::make_unique<TrialVerdicts>(folder, device, numerics);
  return *its;
}

}  // namespace crucible::runtime
