// `crucible store`: what is in a store, why something is not, whether it is sound, making room, taking it elsewhere.
// What it shows is the library's (store/store.hpp).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/memory_switches.hpp"
#include "frontends/cli/store_command.hpp"
#include "frontends/cli/stored_recording.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/kept_store.hpp"
#include "frontends/replay/open_device.hpp"
#include "store/store.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

Result<std::filesystem::path> folder_of(const StoreSwitches& switches) {
  if (!switches.folder.empty()) return std::filesystem::path(switches.folder);
  CRUCIBLE_TRY(const config::Settings settings, load_settings(switches.layers, terminal()));
  return store_folder(settings);
}

}  // namespace

Result<store::StoreOptions> store_options(const StoreSwitches& switches, bool must_exist) {
  store::StoreOptions options;
  CRUCIBLE_TRY(options.folder, folder_of(switches));
  options.must_exist = must_exist;
  options.tell = [](const std::string& words) { tell("crucible: {}\n", words); };
  return options;
}

namespace {

Result<std::unique_ptr<store::Store>> open_store(const StoreSwitches& switches, bool must_exist) {
  CRUCIBLE_TRY(store::StoreOptions options, store_options(switches, must_exist));
  options.trust.policy = switches.trust == "enforce" ? store::Policy::kEnforce
                         : switches.trust == "warn"  ? store::Policy::kWarn
                                                     : store::Policy::kOff;
  for (const std::string& file : switches.keys) {
    CRUCIBLE_TRY(store::PublicKey key, store::PublicKey::read(file));
    options.trust.keys.push_back(std::move(key));
  }
  if (options.trust.policy != store::Policy::kOff && options.trust.keys.empty()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--trust {} needs the public keys that may write: --key FILE", switches.trust)};
  }
  return store::Store::open(std::move(options));
}

Result<std::string> read_toml(const std::string& path) {
  constexpr std::uintmax_t kLargest = 1 << 30;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return Error{ErrorCode::kBadInput, fmt::format("cannot read {}: is it a file?", path)};
  if (size > kLargest) {
    return Error{ErrorCode::kBadInput, fmt::format("{} has {} bytes, the limit is {}", path, size, kLargest)};
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string date_of(std::int64_t since_1970_ns) {
  const std::time_t seconds = since_1970_ns / 1'000'000'000;
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

ordered_json to_json(const store::Values& values) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, value] : values) {
    out[name] = {{"type", store::type_name(value)}, {"value", store::in_words(value)}};
  }
  return out;
}

ordered_json to_json(const store::ActionKey& key) {
  return {{"key", store::hash_of(key).hex()}, {"kind", key.kind},
          {"region", key.region.hex()},       {"target", key.target},
          {"numerics", key.numerics},         {"toolchain", key.toolchain},
          {"options", to_json(key.options)},  {"specialisation", to_json(key.specialisation)}};
}

Result<int> run_list(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_store(switches, true));
  std::vector<std::vector<std::string>> rows = {
      {"key", "kind", "target", "numerics", "toolchain", "size", "made", "maker"}};
  ordered_json list = ordered_json::array();
  CRUCIBLE_TRY_VOID(store->list(switches.kind, switches.count, [&](const store::EntryRow& row) {
    if (switches.json) {
      ordered_json entry = to_json(row.fields);
      entry["size_bytes"] = row.bytes;
      entry["made_ns"] = row.made_ns;
      entry["maker"] = row.maker;
      list.push_back(std::move(entry));
    } else {
      rows.push_back({row.key.hex().substr(0, 12), row.fields.kind, row.fields.target, row.fields.numerics,
                      row.fields.toolchain, format_bytes(row.bytes), date_of(row.made_ns), row.maker});
    }
    return true;
  }));
  CRUCIBLE_TRY(const store::Totals totals, store->totals());
  if (switches.json) {
    print_json({{"store", store->files().folder().string()}, {"count", totals.entries}, {"entries", list}});
    return 0;
  }
  if (rows.size() > 1) print_text(format_table(rows));
  const std::size_t shown = rows.size() - 1;
  print_out("{}{}\n", totals.entries == 1 ? "1 entry" : fmt::format("{} entries", totals.entries),
            shown < totals.entries ? fmt::format(", {} shown; --limit 0 shows all", shown) : "");
  return 0;
}

Result<int> run_stats(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_with_remotes(switches, true, false));
  CRUCIBLE_TRY(const store::Totals totals, store->totals());
  CRUCIBLE_TRY(store::Tuning* const records, store->tuning());
  CRUCIBLE_TRY(const std::uint64_t samples, records->count());
  ordered_json kinds = ordered_json::object();
  for (const auto& [kind, count] : totals.entries_by_kind) kinds[kind] = count;
  if (switches.json) {
    print_json({{"store", store->files().folder().string()},
                {"entries", totals.entries},
                {"entries_by_kind", kinds},
                {"blobs", totals.blobs},
                {"unpacked_bytes", totals.unpacked_bytes},
                {"stored_bytes", totals.stored_bytes},
                {"samples", samples},
                {"remotes", presence_json(*store)}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"of", "count", "size"}};
  for (const auto& [kind, count] : totals.entries_by_kind)
    rows.push_back({"entries: " + kind, fmt::format("{}", count), ""});
  rows.push_back({"entries", fmt::format("{}", totals.entries), ""});
  rows.push_back(
      {"blobs", fmt::format("{}", totals.blobs),
       fmt::format("{}, stored as {}", format_bytes(totals.unpacked_bytes), format_bytes(totals.stored_bytes))});
  rows.push_back({"tuning samples", fmt::format("{}", samples), ""});
  print_text(format_table(rows));
  print_presence(*store, totals);
  return 0;
}

Result<int> run_explain(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_with_remotes(switches, true, false));
  CRUCIBLE_TRY(const auto explained, explain_with_remotes(*store, switches.key));
  const auto& [why, asked] = explained;
  if (switches.json) {
    ordered_json out = {{"asked", to_json(why.key)},
                        {"is_there", why.is_there},
                        {"nearest", nullptr},
                        {"differences", ordered_json::array()},
                        {"remotes", asked_json(asked)}};
    if (why.nearest) out["nearest"] = to_json(*why.nearest);
    for (const store::Difference& each : why.differences) {
      out["differences"].push_back({{"field", each.field}, {"asked", each.a}, {"nearest", each.b}});
    }
    print_json(out);
    return 0;
  }
  print_out("{} {}: {}\n", why.key.kind, store::hash_of(why.key).hex().substr(0, 12),
            why.is_there ? "is in the store" : "is not in the store");
  print_asked(asked);
  if (!why.nearest) {
    print_text("no other entry is there\n");
    return 0;
  }
  print_out("the nearest other entry is {}, which differs in\n", store::hash_of(*why.nearest).hex().substr(0, 12));
  std::vector<std::vector<std::string>> rows = {{"field", "asked for", "nearest"}};
  for (const store::Difference& each : why.differences) {
    rows.push_back({each.field, each.a.empty() ? "-" : each.a, each.b.empty() ? "-" : each.b});
  }
  print_text(format_table(rows));
  return 0;
}

Result<int> run_verify(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_store(switches, true));
  CRUCIBLE_TRY(const store::Verified found, store->verify());
  if (switches.json) {
    print_json({{"good", found.is_good()},
                {"entries", found.entries},
                {"blobs", found.blobs},
                {"damaged_blobs", found.damaged_blobs},
                {"damaged_entries", found.damaged_entries},
                {"incomplete_entries", found.incomplete_entries},
                {"distrusted_entries", found.distrusted_entries},
                {"newer_entries", found.newer_entries}});
  } else {
    print_text(
        format_table({{"of", "good", "damaged", "incomplete", "not trusted", "of a newer version"},
                      {"blobs", fmt::format("{}", found.blobs), fmt::format("{}", found.damaged_blobs), "-", "-", "-"},
                      {"entries", fmt::format("{}", found.entries), fmt::format("{}", found.damaged_entries),
                       fmt::format("{}", found.incomplete_entries), fmt::format("{}", found.distrusted_entries),
                       fmt::format("{}", found.newer_entries)}}));
    print_text(found.is_good() ? "the store is sound\n"
                               : "what is bad is not used; what is damaged lies in quarantine/\n");
  }
  return found.is_good() ? 0 : 1;
}

Result<int> run_gc(const StoreSwitches& switches) {
  std::uint64_t limit = 0;  // all of it may be taken away
  if (switches.limit != "0") {
    CRUCIBLE_TRY(limit, parse_size(switches.limit, "--limit"));
  }
  CRUCIBLE_TRY(const auto store, open_store(switches, true));
  CRUCIBLE_TRY(const store::Collected done, store->collect(limit));
  if (switches.json) {
    print_json({{"entries_removed", done.entries},
                {"blobs_removed", done.blobs},
                {"before_bytes", done.bytes_before},
                {"after_bytes", done.bytes_after}});
  } else {
    print_out("took away entries: {}, blobs: {}; blobs had {}, have {}\n", done.entries, done.blobs,
              format_bytes(done.bytes_before), format_bytes(done.bytes_after));
  }
  return 0;
}

int tell_exchanged(const StoreSwitches& switches, const store::Exchanged& done, const char* word) {
  if (switches.json) {
    print_json({{"file", switches.file}, {"entries", done.entries}, {"blobs", done.blobs}, {"samples", done.samples}});
  } else {
    print_out("{} {}: entries: {}, blobs: {}, new tuning samples: {}\n", word, switches.file, done.entries, done.blobs,
              done.samples);
  }
  return 0;
}

Result<int> run_export(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_store(switches, true));
  if (switches.tuning) {
    CRUCIBLE_TRY(store::Tuning* const records, store->tuning());
    CRUCIBLE_TRY(const std::string text, records->to_toml());
    CRUCIBLE_TRY(const std::uint64_t samples, records->count());
    CRUCIBLE_TRY_VOID(write_output(switches.file, text));
    return tell_exchanged(switches, {0, 0, samples}, "wrote");
  }
  CRUCIBLE_TRY(const store::Exchanged done, store->export_to(switches.file));
  return tell_exchanged(switches, done, "wrote");
}

Result<int> run_import(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_store(switches, false));
  if (switches.tuning) {
    CRUCIBLE_TRY(const std::string text, read_toml(switches.file));
    CRUCIBLE_TRY(store::Tuning* const records, store->tuning());
    CRUCIBLE_TRY(const std::uint64_t samples, records->add_toml(text));
    return tell_exchanged(switches, {0, 0, samples}, "read");
  }
  CRUCIBLE_TRY(const store::Exchanged done, store->import_from(switches.file));
  return tell_exchanged(switches, done, "read");
}

Result<int> tell_recording(const StoreSwitches& switches, const StoredRecording& made, std::string_view done) {
  if (switches.json) {
    print_json(ordered_json{{"key", store::hash_of(made.key).hex()},
                            {"content", made.key.region.hex()},
                            {"file", made.file},
                            {"blobs", made.blobs},
                            {"blob_bytes", made.blob_bytes},
                            {"new_bytes", made.new_bytes}});
  } else {
    print_out("{} {} as {}: {} blobs, {}\n", done, made.file, store::hash_of(made.key).hex().substr(0, 12), made.blobs,
              format_bytes(made.blob_bytes));
  }
  return 0;
}

Result<int> run_add(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_store(switches, false));
  CRUCIBLE_TRY(const StoredRecording made, store_recording(*store, switches.file));
  return tell_recording(switches, made, "put in");
}

Result<int> run_take(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_store(switches, true));
  CRUCIBLE_TRY(const StoredRecording made, take_recording(*store, switches.key, switches.file));
  return tell_recording(switches, made, "took out");
}

}  // namespace

void add_store(Commands& commands) {
  CLI::App* const parent = add_subcommand(
      commands.app, "store", "The store: what is kept between runs, by what it depends on.", "crucible store stats");
  parent->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, const char* example, StoreCommand run,
                       const std::function<void(CLI::App&, StoreSwitches&)>& own) {
    auto switches = std::make_shared<StoreSwitches>();  // shared with the callback, which runs after this function
    CLI::App* const command = add_subcommand(*parent, name, description, example);
    own(*command, *switches);
    command->add_option(
        "--store", switches->folder,
        "The store's folder (default: key store.folder, CRUCIBLE_STORE_DIR, or ~/.cache/crucible/store)");
    command->add_flag("--json", switches->json, "One JSON document on standard output");
    command->callback([&commands, switches, run] { commands.run = [switches, run] { return run(*switches); }; });
  };
  const auto add_trust = [](CLI::App& command, StoreSwitches& switches) {
    command
        .add_option("--trust", switches.trust, "What is done about entries that no key of --key signed (default off)")
        ->check(CLI::IsMember({"enforce", "warn", "off"}));
    command.add_option("--key", switches.keys, "A public Ed25519 key (PEM) that may write; again for more")
        ->allow_extra_args(false)
        ->take_all();
  };
  add("list", "The entries, the latest used first.", "crucible store list --kind kernel --limit 10", run_list,
      [](CLI::App& command, StoreSwitches& switches) {
        command.add_option("--kind", switches.kind, "Only entries of this kind");
        command.add_option("--limit", switches.count, "How many are shown; 0: all (default 50)");
      });
  add("stats", "How many entries, blobs and tuning samples are there, and how large they are.",
      "crucible store stats --json", run_stats, add_remote_switches);
  add("explain", "The nearest entry to one that was looked for, and in what their keys differ.",
      "crucible store explain 3fa9c2", run_explain, [](CLI::App& command, StoreSwitches& switches) {
        command
            .add_option("key", switches.key,
                        "The first digits of a key that is there, or that was missed; a whole one of a remote's entry")
            ->required();
        add_remote_switches(command, switches);
      });
  add("verify", "Reads everything and moves aside what is damaged; 1 when something was bad.",
      "crucible store verify --trust enforce --key ours.pem.pub", run_verify, add_trust);
  add("gc", "Takes away what was used longest ago, until the blobs are as small as --limit.",
      "crucible store gc --limit 2GiB", run_gc, [](CLI::App& command, StoreSwitches& switches) {
        command.add_option("--limit", switches.limit, "Bytes of all blobs as stored, with a unit")->required();
      });
  add("push", "Writes the entries that a remote lacks to it, signed, blobs first.",
      "crucible store push --remote https://cache.example.org/store --sign ours.pem", run_push,
      [](CLI::App& command, StoreSwitches& switches) {
        add_remote_switches(command, switches);
        command.add_option("--sign", switches.sign, "The secret Ed25519 key (PEM) that signs (default: store.sign)");
      });
  add("pull",
      "Takes in what the remotes have of the keys named, or of all that was missed lately; 1 when one of those "
      "named was not to be had.",
      "crucible store pull --remote https://cache.example.org/store --key ours.pem.pub", run_pull,
      [](CLI::App& command, StoreSwitches& switches) {
        command.add_option("keys", switches.wanted, "Keys, all 64 digits (default: the last 1000 misses)");
        add_remote_switches(command, switches);
      });
  add("add", "Puts a recording in, its bytes by content: recordings of one model share its weights.",
      "crucible store add step.crtrace", run_add, [](CLI::App& command, StoreSwitches& switches) {
        command.add_option("file", switches.file, "The recording (.crtrace)")->required();
      });
  add("take", "Writes a recording that is in the store to a file.", "crucible store take 3fa9c2 -o step.crtrace",
      run_take, [](CLI::App& command, StoreSwitches& switches) {
        command
            .add_option("key", switches.key, "The first digits of its key, or of its content: `crucible store list`")
            ->required();
        command.add_option("-o,--output", switches.file, "The file to be written")->required();
      });
  add("export", "Everything as one file, to be imported elsewhere.", "crucible store export kept.crstore", run_export,
      [](CLI::App& command, StoreSwitches& switches) {
        command.add_option("file", switches.file, "The file to be written")->required();
        command.add_flag("--tuning", switches.tuning, "Only the tuning records, as TOML");
      });
  add("import", "Takes in what `export` wrote; nothing of a file that is damaged.",
      "crucible store import kept.crstore", run_import, [&](CLI::App& command, StoreSwitches& switches) {
        command.add_option("file", switches.file, "The file to be read")->required();
        command.add_flag("--tuning", switches.tuning, "A file of tuning records, TOML");
        add_trust(command, switches);
      });
}

}  // namespace crucible::cli
