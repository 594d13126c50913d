// Verdicts go as one line of JSON through a pipe of their own, so that a plugin that prints cannot disturb them.
#include "plugins/conformance/verdict.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace crucible::conformance {
namespace {

/// Written once before the case runs. -1 is a case that somebody runs by hand: the verdict goes to standard output.
int verdict_descriptor = -1;
std::atomic<bool> said{false};

void say(const nlohmann::json& verdict) {
  if (said.exchange(true)) return;  // the first word counts
  std::string line = verdict.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const int descriptor = verdict_descriptor < 0 ? 1 : verdict_descriptor;
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = write(descriptor, line.data() + at, line.size() - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
}

[[noreturn]] void end() {
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

void set_verdict_descriptor(int descriptor) { verdict_descriptor = descriptor; }

void fail(std::string_view expected, std::string_view got) {
  say({{"outcome", "failed"}, {"expected", expected}, {"got", got}});
  end();
}

void unsupported(std::string_view reason) {
  say({{"outcome", "unsupported"}, {"got", reason}});
  end();
}

void pass(std::string_view facts) {
  nlohmann::json verdict = {{"outcome", "passed"}};
  if (!facts.empty()) verdict["facts"] = nlohmann::json::parse(facts, nullptr, false);
  say(verdict);
}

void expect_equal(std::uint64_t got, std::uint64_t expected, std::string_view what) {
  if (got != expected) fail(fmt::format("{} is {}", what, expected), fmt::format("{}", got));
}

std::string code_name(crucible_code code) {
  static constexpr const char* kNames[] = {
      "OK",          "INVALID_ARGUMENT", "UNSUPPORTED", "UNIMPLEMENTED", "OUT_OF_MEMORY", "INCOMPATIBLE", "UNAVAILABLE",
      "DEVICE_LOST", "EXEC_FAULT",       "CANCELLED",   "DATA_CORRUPT",  "PERMISSION",    "INTERNAL"};
  const crucible_code category = code & 0xff;
  if (category >= 0 && category < static_cast<crucible_code>(std::size(kNames))) return kNames[category];
  return fmt::format("category {}", category);
}

PluginError take_error(crucible_status status, std::string_view what) {
  const std::string prefix = fmt::format("{}: the error object", what);
  expect(status->table != nullptr, prefix + " has a table of functions", "its table is NULL");
  const crucible_error_table& table = *status->table;
  constexpr std::size_t kLeast = offsetof(crucible_error_table, payload);  // what 0.1 had
  expect(table.struct_size >= kLeast, fmt::format("{}'s table has {} bytes or more", prefix, kLeast),
         fmt::format("struct_size is {}", table.struct_size));
  expect(table.destroy != nullptr && table.code != nullptr && table.message != nullptr,
         prefix + " can be destroyed and has code and message", "one of the three functions is NULL");
  PluginError error;
  const crucible_code code = table.code(status);
  error.code = code & 0xff;
  expect(error.code > CRUCIBLE_OK && error.code <= CRUCIBLE_E_INTERNAL, prefix + " has one of the ABI's categories",
         fmt::format("code {}", code));
  const crucible_str text = table.message(status);
  expect(text.data != nullptr && text.size > 0, prefix + " has a message", "the message is empty");
  error.message.assign(text.data, text.size);
  if (table.struct_size >= sizeof(crucible_error_table) && table.payload != nullptr) {
    crucible_str key{}, value{};
    std::uint32_t count = 0;
    while (count < 64 && table.payload(status, count, &key, &value) == 1) {
      expect(key.data != nullptr && key.size > 0, prefix + "'s payload has keys", "an empty key");
      error.pairs.emplace(std::string(key.data, key.size), std::string(value.data, value.size));
      ++count;
    }
    expect(count < 64, prefix + "'s payload ends with 0", "64 items and no end");
  }
  table.destroy(status);
  return error;
}

void expect_ok(crucible_status status, std::string_view what) {
  if (status == nullptr) return;
  const PluginError error = take_error(status, what);
  fail(fmt::format("{} succeeds", what), fmt::format("{}: {}", code_name(error.code), error.message));
}

PluginError expect_error(crucible_status status, std::initializer_list<crucible_code> categories,
                         std::string_view what) {
  std::string wanted;
  for (const crucible_code code : categories) wanted += (wanted.empty() ? "" : " or ") + code_name(code);
  if (status == nullptr) fail(fmt::format("{} answers {}", what, wanted), "it succeeded");
  PluginError error = take_error(status, what);
  for (const crucible_code code : categories) {
    if (error.code == code) return error;
  }
  fail(fmt::format("{} answers {}", what, wanted), fmt::format("{}: {}", code_name(error.code), error.message));
}

}  // namespace crucible::conformance
