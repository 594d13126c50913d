// Statements as JSON and back. The key stands in them as its bytes: they are what was hashed.
#include "store/statement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace crucible::store {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kOutputLimit = 4096, kEvidenceLimit = 4096, kNameLimit = 128;

Error refused(std::string_view why) {
  return {ErrorCode::kBadInput, fmt::format("this is no statement of an action: {}", why)};
}

const json* member(const json& object, const char* name, json::value_t type) {
  const auto found = object.find(name);
  return found != object.end() && found->type() == type ? &*found : nullptr;
}

}  // namespace

bool is_output_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameLimit && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::string to_json(const Statement& statement) {
  nlohmann::ordered_json out = {{"version", kVersion},
                                {"key", hash_of(statement.key).hex()},
                                {"kind", statement.key.kind},
                                {"fields", to_base64(encode(statement.key))},
                                {"outputs", nlohmann::ordered_json::array()},
                                {"maker", statement.maker},
                                {"made_ns", statement.made_ns},
                                {"evidence", nlohmann::ordered_json::object()}};
  for (const Output& output : statement.outputs) {
    out["outputs"].push_back({{"name", output.name}, {"sha256", output.blob.hex()}, {"size_bytes", output.size}});
  }
  for (const auto& [name, text] : statement.evidence) out["evidence"][name] = text;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<Statement> parse_statement(std::string_view text) {
  const json in = json::parse(text, nullptr, false);
  if (!in.is_object()) return refused("no JSON object");
  const json* const version = member(in, "version", json::value_t::number_unsigned);
  if (version == nullptr) return refused("no version");
  if (*version > kVersion) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the entry was written by a newer version of Crucible (version {}, "
                             "this one reads {})",
                             version->get<std::uint64_t>(), kVersion)};
  }
  const json* const fields = member(in, "fields", json::value_t::string);
  const json* const key = member(in, "key", json::value_t::string);
  const json* const outputs = member(in, "outputs", json::value_t::array);
  const json* const maker = member(in, "maker", json::value_t::string);
  const json* const evidence = member(in, "evidence", json::value_t::object);
  const auto made = in.find("made_ns");
  if (!fields || !key || !outputs || !maker || !evidence || made == in.end() || !made->is_number_integer()) {
    return refused("a part is missing or of another kind");
  }
  if (outputs->size() > kOutputLimit || evidence->size() > kEvidenceLimit)
    return refused("too many outputs or evidence");
  const auto bytes = from_base64(fields->get_ref<const std::string&>());
  if (!bytes) return refused("its fields are no base64");
  Statement statement;
  CRUCIBLE_TRY(statement.key, decode(*bytes));
  if (hash_of(statement.key).hex() != key->get_ref<const std::string&>())
    return refused("its key is not that of its fields");
  std::set<std::string> names;
  for (const json& each : *outputs) {
    const json* const name = each.is_object() ? member(each, "name", json::value_t::string) : nullptr;
    const json* const blob = each.is_object() ? member(each, "sha256", json::value_t::string) : nullptr;
    const json* const size = each.is_object() ? member(each, "size_bytes", json::value_t::number_unsigned) : nullptr;
    if (!name || !blob || !size) return refused("an output lacks name, sha256 or size_bytes");
    Output output{*name, {}, *size};
    if (!is_output_name(output.name))
      return refused("the name of an output has other characters than letters, digits, . _ -");
    if (!names.insert(output.name).second) return refused("two outputs have one name");
    CRUCIBLE_TRY(output.blob, parse_hash(blob->get_ref<const std::string&>()));
    statement.outputs.push_back(std::move(output));
  }
  for (const auto& [name, value] : evidence->items()) {
    if (!value.is_string()) return refused("its evidence is no text");
    statement.evidence.emplace(name, value.get<std::string>());
  }
  statement.maker = *maker;
  statement.made_ns = *made;
  return statement;
}

std::string sealed(const Statement& statement, const std::optional<SecretKey>& key) {
  Envelope envelope{std::string(kStatementType), to_json(statement), {}};
  if (key) {
    envelope.signatures.push_back({key->public_key().id(), key->sign(signed_bytes(envelope.type, envelope.payload))});
  }
  return to_json(envelope);
}

}  // namespace crucible::store
