// What a configuration is made of: values, the layer and the place that each came from, and what is wrong with one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace crucible::config {

/// Who may say something, weakest first: a later layer wins.
enum class Layer : std::uint8_t { kBuiltIn, kSystem, kUser, kProject, kEnvironment, kCommandLine, kApi };
inline constexpr int kLayerCount = static_cast<int>(Layer::kApi) + 1;

/// "built-in", "system", "user", "project", "environment", "command line", "API".
std::string_view layer_name(Layer layer);
/// True for the layers whose values are read from TOML files.
bool is_file(Layer layer);

/// Where a value was written.
struct Origin {
  Layer layer = Layer::kBuiltIn;
  std::string where;                   // the file, the variable, the switch; "" when the layer says it all
  std::uint32_t line = 0, column = 0;  // of a file, from 1; 0: not a file
  /// "crucible.toml:3:1", "CRUCIBLE_THREADS", "--set"; the layer's name when there is nothing closer.
  std::string place() const;
  /// "project, crucible.toml:3:1".
  std::string text() const;
};

using List = std::vector<std::string>;
/// A value that no key takes (a float, a date, a table), by what it is: "a float".
struct Foreign {
  std::string what;
  bool operator==(const Foreign&) const = default;
};
using Value = std::variant<bool, std::int64_t, std::string, List, Foreign>;

/// "true", "2", "cpu", "a, b".
std::string to_text(const Value& value);

/// `text` on one line: what a terminal takes for a command, and the end of a line, are written as \xNN.
std::string shown(std::string_view text);

/// One value as somebody wrote it. `key` is dotted: "plugins.trust", "backend.cpu.threads".
struct Entry {
  std::string key;
  Value value;
  Origin origin;
};

/// Why a value cannot be used, with what to write instead.
struct Problem {
  Origin origin;
  std::string message;
  bool may_be_about_loading = true;  // what was meant could be a rule about plugins: none is asked before it is mended
};

}  // namespace crucible::config
