// What the recorded processes told (package/crucible_torch/report.py), in the command's words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace crucible::cli {

/// What the words depend on.
struct RecordRequest {
  std::string program;  // first word of the command
  std::string output;   // as it was given
  std::uint32_t first_iteration = 0;  // the first that was to be recorded, from 1
  std::string first_option;           // which option says so
};

class RecordReport {
 public:
  /// Reads what processes left beside `status`. Errors: none; what cannot be read was not told.
  static RecordReport read(const std::filesystem::path& status);

  /// Why there is no file, in words; "" when there is one.
  std::string why_nothing(const RecordRequest& request) const;
  /// The files of ranks that were written, by rank; none when the program had no ranks.
  std::vector<std::string> files_of_ranks() const;
  /// One line per file, and what is missing in it, on standard error.
  void print_summary(const RecordRequest& request) const;
  /// The JSON document.
  nlohmann::ordered_json document(const RecordRequest& request, int program_code) const;

 private:
  std::vector<nlohmann::ordered_json> written_;  // reports of processes that wrote a file
  std::vector<nlohmann::ordered_json> others_;   // reports of those that did not
  std::string plain_state_;                      // "python" when an interpreter was started
};

}  // namespace crucible::cli
