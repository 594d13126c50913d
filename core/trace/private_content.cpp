// Every text of the recording passes note_text(), which looks for what is private in texts of any kind.
#include "core/trace/private_content.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "core/trace/path_shortener.hpp"

namespace crucible::trace {

namespace {

using Names = std::set<std::string>;

bool is_word_sign(char sign) {
  return std::isalnum(static_cast<unsigned char>(sign)) != 0 || sign == '_' || sign == '-' || sign == '.';
}

/// Whether `text` has `word` with nothing of a word's before and behind it.
bool has_word(std::string_view text, std::string_view word) {
  if (word.size() < 3) return false;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_sign(text[at - 1])) && (end == text.size() || !is_word_sign(text[end]))) return true;
  }
  return false;
}

class Search {
 public:
  Search(const Trace& trace, std::string user, std::string host)
      : trace_(trace), user_(std::move(user)), host_(std::move(host)) {}

  PrivateContent run() {
    found_.command = note_text(trace_.metadata.command);
    found_.created = trace_.metadata.created;
    found_.reason = note_text(trace_.metadata.incomplete_reason);
    for (const std::string* text :
         {&trace_.metadata.framework, &trace_.metadata.frontend, &trace_.metadata.device, &trace_.metadata.blob_folder})
      note_text(*text);
    for (const Site& site : trace_.sites) note_text(site.file), functions_.insert(note_text(site.function));
    for (const std::string& module : trace_.modules) modules_.insert(note_text(module));
    for (const Storage& storage : trace_.storages) note_text(storage.device);
    for (const Schema& schema : trace_.schemas) {
      const std::string space = schema.name.substr(0, schema.name.find("::"));
      constexpr std::array kPublic = {
          "aten",        "prims",  "prim",      "c10d",  "_c10d_functional", "c10d_functional",
          "torchvision", "python", "quantized", "mkldnn"};
      if (std::ranges::find(kPublic, space) == kPublic.end()) operators_.insert(schema.name);
    }
    for (const Op& op : trace_.ops) {
      for (const Arg& arg : op.args) note_arg(arg, false);
      for (const Arg& output : op.outputs) note_arg(output, true);
    }
    for (const CompoundTensor& compound : trace_.compounds) {
      for (const auto& [part, value] : compound.parts) note_arg(value, false);
    }
    for (const NotRecorded& item : trace_.not_recorded) note_text(item.what);
    for (const Iteration& iteration : trace_.iterations) found_.results += iteration.losses.size();
    for (const auto& hashes : trace_.op_hashes) found_.hashes += hashes.size();
    note_data();
    note_secrets();
    const auto list = [](const Names& names) { return std::vector<std::string>(names.begin(), names.end()); };
    const std::pair<Names*, std::vector<std::string>*> lists[] = {
        {&paths_, &found_.paths},     {&users_, &found_.users},         {&hosts_, &found_.hosts},
        {&modules_, &found_.modules}, {&functions_, &found_.functions}, {&tensors_, &found_.tensors},
        {&outputs_, &found_.outputs}, {&operators_, &found_.operators}, {&texts_, &found_.texts}};
    for (const auto& [from, to] : lists) {
      from->erase("");
      *to = list(*from);
    }
    return std::move(found_);
  }

 private:
  const std::string& note_text(const std::string& text) {
    for (const std::string_view path : absolute_paths(text)) {
      paths_.insert(std::string(path));
      for (const std::string_view folder : {"/home/", "/Users/"}) {
        const std::size_t at = path.find(folder);
        if (at == std::string_view::npos) continue;
        const std::string_view below = path.substr(at + folder.size());
        users_.insert(std::string(below.substr(0, below.find('/'))));
      }
      if (path == "/root" || path.starts_with("/root/")) users_.insert("root");
    }
    if (has_word(text, user_)) users_.insert(user_);
    if (has_word(text, host_)) hosts_.insert(host_);
    note_addresses(text);
    return text;
  }

  /// "https://HOST/...", "USER@HOST", "10.0.0.7".
  void note_addresses(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && is_word_sign(text[end])) ++end;
      const std::string_view word = text.substr(at, end - at);
      const bool is_of_url = at >= 3 && text.substr(at - 3, 3) == "://";
      const bool is_behind_at = at >= 1 && text[at - 1] == '@';
      const bool has_letters =
          std::ranges::any_of(word, [](char sign) { return std::isalpha(static_cast<unsigned char>(sign)) != 0; });
      if (!word.empty() && end < text.size() && text[end] == '@') users_.insert(std::string(word));
      const bool is_number = !has_letters && std::ranges::count(word, '.') == 3 &&
                             word.find('-') == std::string_view::npos && word.size() >= 7;
      if (is_number || (!word.empty() && (is_behind_at || (is_of_url && (end == text.size() || text[end] != '@')))))
        hosts_.insert(std::string(word));
      at = std::max(end, at + 1);
    }
  }

  void note_arg(const Arg& arg, bool is_result) {
    if (arg.kind == Arg::Kind::kString || arg.kind == Arg::Kind::kOpaque) texts_.insert(note_text(arg.text));
    const bool is_number =
        arg.kind == Arg::Kind::kInt || arg.kind == Arg::Kind::kDouble || arg.kind == Arg::Kind::kComplex;
    found_.results += is_result && is_number;
    for (const Arg& element : arg.list) note_arg(element, is_result);
  }

  void note_data() {
    const auto add = [this](const char* what, const auto& records, auto&& counts) {
      PrivateContent::Data data{what};
      for (const auto& record : records) {
        if (!counts(record)) continue;
        ++data.count;
        data.size_bytes += record.blob == kNone ? 0 : trace_.blobs[record.blob].size_bytes;
      }
      if (data.count > 0) found_.data.push_back(std::move(data));
    };
    constexpr std::pair<Role, const char*> kRoles[] = {{Role::kParameter, "parameters"},
                                                       {Role::kBuffer, "buffers"},
                                                       {Role::kOptimizerState, "optimizer states"},
                                                       {Role::kInput, "inputs"},
                                                       {Role::kUnknown, "other tensors that entered"}};
    for (const auto& [role, what] : kRoles)
      add(what, trace_.externals, [role](const External& external) { return external.role == role; });
    const auto all = [](const auto&) { return true; };
    add("states at the end", trace_.final_states, all);
    add("outputs", trace_.outputs, all);
    add("what random ops drew", trace_.draws, all);
    add("states of generators", trace_.generators, all);
    for (const External& external : trace_.externals) tensors_.insert(note_text(external.name));
    for (const FinalState& state : trace_.final_states) tensors_.insert(note_text(state.name));
    for (const Output& output : trace_.outputs) outputs_.insert(note_text(output.name));
  }

  /// Names of options alone: the value is in the command as it is.
  void note_secrets() {
    const std::string& command = trace_.metadata.command;
    for (std::size_t at = 0; at < command.size();) {
      const std::size_t end = std::min(command.find(' ', at), command.size());
      const std::string word = command.substr(at, std::min(command.find('=', at), end) - at);
      std::string small;
      for (const char sign : word) small += static_cast<char>(std::tolower(static_cast<unsigned char>(sign)));
      constexpr std::array kWords = {"key", "token", "secret", "password", "passwd", "credential", "auth"};
      const bool is_told =
          std::ranges::any_of(kWords, [&](const char* name) { return small.find(name) != std::string::npos; });
      const bool is_named = word.starts_with('-') || word.size() < end - at;
      if (is_told && is_named) found_.secrets.push_back(word);
      at = end + 1;
    }
  }

  const Trace& trace_;
  const std::string user_, host_;
  PrivateContent found_;
  Names paths_, users_, hosts_, modules_, functions_, tensors_, outputs_, operators_, texts_;
};

}  // namespace

PrivateContent private_content(const Trace& trace, const std::string& user, const std::string& host) {
  return Search(trace, user, host).run();
}

}  // namespace crucible::trace
