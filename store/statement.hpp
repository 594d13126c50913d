// What an entry says: for this key these blobs are the answer, by whom, when, and on what evidence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "store/envelope.hpp"
#include "store/key.hpp"

namespace crucible::store {

inline constexpr std::string_view kStatementType = "application/vnd.crucible.action+json";
inline constexpr std::uint64_t kStatementLimit = 1 << 20;  // bytes of a file in ac/

/// A blob of an answer.
struct Output {
  std::string name;  // letters, digits, '.', '_' and '-', and no '.' in front: it may become a file's name
  ContentHash blob;
  std::uint64_t size = 0;
  bool operator==(const Output&) const = default;
};

struct Statement {
  ActionKey key;
  std::vector<Output> outputs;
  std::string maker;         // program and version
  std::int64_t made_ns = 0;  // since 1970; for people: nothing is decided by it
  std::map<std::string, std::string> evidence;
  bool operator==(const Statement&) const = default;
};

bool is_output_name(std::string_view name);

/// The payload of an envelope of kStatementType.
std::string to_json(const Statement& statement);
/// Errors: kBadInput; kUnavailable for a statement of a newer version, which is left alone.
Result<Statement> parse_statement(std::string_view json);

/// Both at once, signed where there is a key: the bytes of a file in ac/.
std::string sealed(const Statement& statement, const std::optional<SecretKey>& key);

}  // namespace crucible::store
