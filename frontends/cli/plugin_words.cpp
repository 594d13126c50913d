#include "frontends/cli/plugin_words.hpp"

#include <fmt/format.h>

#include <string_view>

namespace crucible::cli {
namespace {

/// What a table has room for beside its other columns.
constexpr std::size_t kLongestWhy = 72;

/// `text` without what stands in parentheses, which is detail: paths that were tried, numbers of errors.
std::string without_parentheses(std::string_view text) {
  std::string kept;
  int depth = 0;
  for (const char letter : text) {
    if (letter == '(' && depth++ == 0 && kept.ends_with(' ')) kept.pop_back();
    if (depth == 0) kept += letter;
    if (letter == ')' && depth > 0) --depth;
  }
  return kept;
}

/// As much of a sentence as fits into `room`, ended between words.
std::string cut(const std::string& text, std::size_t room) {
  const std::size_t space = text.rfind(' ', room - 3);
  return text.substr(0, space == std::string::npos ? room - 3 : space) + "...";
}

/// As much of a reason as fits. What to do comes last, after a colon: of the rest that is what stays.
std::string shortened(const std::string& text) {
  constexpr std::size_t kLeastOfReason = 12;
  if (text.size() <= kLongestWhy) return text;
  const std::size_t colon = text.rfind(": ");
  const std::size_t advice = colon == std::string::npos ? 0 : text.size() - colon;
  if (advice == 0 || advice + kLeastOfReason > kLongestWhy) return cut(text, kLongestWhy);
  return cut(text.substr(0, colon), kLongestWhy - advice) + text.substr(colon);
}

}  // namespace

std::string short_reason(const std::string& reason, const std::filesystem::path& plugin) {
  std::string text = reason.substr(0, reason.find('\n'));
  const std::string path = plugin.string();
  const auto remove_all = [&](const std::string& words, const std::string& instead) {
    for (std::size_t at; !path.empty() && (at = text.find(words)) != std::string::npos;) {
      text.replace(at, words.size(), instead);
    }
  };
  for (const char* what : {"manifest ", "folder ", ""}) remove_all(what + path + " is passed over: ", "");
  remove_all("plugin " + path + ": ", "");
  remove_all("plugin " + path, "it");
  remove_all(path + ": ", "");
  remove_all(path, "it");
  return text;
}

PluginState misconfigured_state(const Error& error) {
  // Where it is said comes before the colon, and is what there is least room for.
  const std::string reason = short_reason(error.message, {});
  const std::size_t colon = reason.rfind(": ");
  const bool is_long = reason.size() > kLongestWhy && colon != std::string::npos;
  return {"misconfigured", shortened(is_long ? reason.substr(colon + 2) : reason)};
}

PluginState refused_state(const Error& error, backend::Step step, const std::string& name,
                          const std::filesystem::path& path) {
  if (step == backend::Step::kLists)
    return {"not allowed", shortened(without_parentheses(short_reason(error.message, path)))};
  if (step == backend::Step::kTrust)
    return {"not trusted", shortened(without_parentheses(short_reason(error.message, path)))};
  return refused_state(error, name, path);
}

PluginState refused_state(const Error& error, const std::string& name, const std::filesystem::path& path) {
  // The loader puts these words before a plugin's own answer; how a plugin crashed it tells in its own.
  for (const std::string& own :
       {fmt::format("starting plugin {}: ", name), fmt::format("listing the devices of {}: ", name)}) {
    if (error.code != ErrorCode::kUnavailable || !error.message.starts_with(own)) continue;
    const std::string answer = without_parentheses(short_reason(error.message.substr(own.size()), path));
    return {"unavailable", shortened(answer.substr(0, answer.find(": ")))};  // what to do comes after the colon
  }
  return {"broken", shortened(without_parentheses(short_reason(error.message, path)))};
}

}  // namespace crucible::cli
