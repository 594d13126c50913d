// The query: who may ask what, what it may write, and that it does nothing else.
#include <fmt/format.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "plugins/conformance/process_state.hpp"
#include "plugins/conformance/subject.hpp"
#include "plugins/conformance/verdict.hpp"

namespace crucible::conformance {
namespace {

constexpr unsigned char kGuard = 0xa5;
constexpr std::uint32_t kSize01 = offsetof(crucible_query_out, build_id);  // of 0.1's answer

/// A place for an answer of `size` bytes with guard bytes behind it.
struct Answer {
  explicit Answer(std::uint32_t size) : bytes(sizeof(crucible_query_out) + 4096, kGuard), size(size) {
    std::memset(bytes.data(), 0, std::min<std::size_t>(size, bytes.size()));
    std::memcpy(bytes.data(), &size, sizeof(size));
  }
  crucible_query_out* out() { return reinterpret_cast<crucible_query_out*>(bytes.data()); }
  /// Nothing behind the bytes that the host has; the host's own size stays or shrinks.
  void expect_guarded(std::string_view what) {
    for (std::size_t i = std::max<std::size_t>(size, 4); i < bytes.size(); ++i) {
      if (bytes[i] == kGuard) continue;
      fail(fmt::format("{}: no more than the {} bytes of the host's struct are written", what, size),
           fmt::format("byte {} was written", i));
    }
    expect(out()->struct_size <= std::max<std::uint32_t>(size, 4), fmt::format("{}: struct_size does not grow", what),
           fmt::format("{} became {}", size, out()->struct_size));
  }
  std::string_view reason() {
    return {out()->reject_reason, strnlen(out()->reject_reason, sizeof(out()->reject_reason))};
  }
  std::vector<unsigned char> bytes;
  std::uint32_t size;
};

struct Question {
  crucible_query_in in = {sizeof(crucible_query_in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
};

void expect_accepted(std::int32_t code, Answer& answer, std::string_view what) {
  answer.expect_guarded(what);
  expect(code == 0, fmt::format("{} is accepted", what), fmt::format("code {}: {}", code, answer.reason()));
  const crucible_query_out& out = *answer.out();
  expect(out.magic == CRUCIBLE_MAGIC, fmt::format("{}: the magic is answered", what), fmt::format("{:#x}", out.magic));
  expect_equal(out.abi_major, CRUCIBLE_ABI_MAJOR, fmt::format("{}: the answered major", what));
  for (const auto& [text, name] : {std::pair(out.name, "name"), {out.vendor, "vendor"}, {out.version, "version"}})
    expect(text.data != nullptr && text.size > 0, fmt::format("{}: {} is given", what, name), "it is empty");
  expect(out.api != nullptr && out.api->struct_size >= offsetof(crucible_plugin_api, describe_options),
         fmt::format("{}: the plugin's functions are given", what), "api is NULL or too short");
}

void expect_rejected(std::int32_t code, Answer& answer, std::string_view what) {
  answer.expect_guarded(what);
  expect(code != 0, fmt::format("{} is rejected", what), "the query answers 0");
  if (answer.size >= kSize01)
    expect(!answer.reason().empty(), fmt::format("{}: reject_reason says why", what), "it is empty");
}

void ask(const Settings& settings, const crucible_query_in& in, std::uint32_t size, bool accepted,
         std::string_view what) {
  const crucible_plugin_query_fn query = load_query(settings);
  Answer answer(size);
  const std::int32_t code = query(&in, answer.out());
  accepted ? expect_accepted(code, answer, what) : expect_rejected(code, answer, what);
}

void same_minor(const Settings& settings) {
  ask(settings, Question().in, sizeof(crucible_query_out), true, "a host of the same minor");
}

void older_minor(const Settings& settings) {
  Question question;
  question.in.host_minor = CRUCIBLE_ABI_OLDEST_MINOR;
  ask(settings, question.in, kSize01, true, "a host of the oldest minor, whose answer is shorter");
}

void newer_minor(const Settings& settings) {
  Question question;
  question.in.host_minor = CRUCIBLE_ABI_MINOR + 5;
  ask(settings, question.in, sizeof(crucible_query_out) + 64, true, "a host of a newer minor, whose answer is longer");
}

void longer_question(const Settings& settings) {
  struct {
    crucible_query_in in;
    unsigned char more[48];
  } question = {Question().in, {}};
  std::memset(question.more, 0xee, sizeof(question.more));
  question.in.struct_size = sizeof(question);
  ask(settings, question.in, sizeof(crucible_query_out), true, "a question that is longer than the plugin's");
}

void wrong_major(const Settings& settings) {
  for (const std::uint32_t major : {CRUCIBLE_ABI_MAJOR + 1, CRUCIBLE_ABI_MAJOR + 7, 0xffffffffu}) {
    Question question;
    question.in.host_major = major;
    ask(settings, question.in, sizeof(crucible_query_out), false, fmt::format("a host of major {}", major));
  }
}

void wrong_magic(const Settings& settings) {
  for (const std::uint32_t magic : {0u, 1u, CRUCIBLE_MAGIC + 1, 0xffffffffu}) {
    Question question;
    question.in.magic = magic;
    ask(settings, question.in, sizeof(crucible_query_out), false, fmt::format("a host with magic {:#x}", magic));
  }
}

void short_question(const Settings& settings) {
  for (const std::uint32_t size : {0u, 4u, 8u}) {
    Question question;
    question.in.struct_size = size;
    ask(settings, question.in, sizeof(crucible_query_out), false, fmt::format("a question of {} bytes", size));
  }
}

void short_answer(const Settings& settings) {
  // Smaller than what 0.1 had: there is no room for the table of functions or for a reason.
  for (const std::uint32_t size : {0u, 4u, 8u, 16u, 32u, 64u}) {
    ask(settings, Question().in, size, false, fmt::format("a host with room for {} bytes of answer", size));
  }
}

void null_arguments(const Settings& settings) {
  const crucible_plugin_query_fn query = load_query(settings);
  const Question question;
  Answer answer(sizeof(crucible_query_out));
  expect_rejected(query(nullptr, answer.out()), answer, "no question");
  expect(query(&question.in, nullptr) != 0, "a host without room for an answer is rejected", "the query answers 0");
  expect(query(nullptr, nullptr) != 0, "no question and no room for an answer is rejected", "the query answers 0");
}

void repeatable(const Settings& settings) {
  const crucible_plugin_query_fn query = load_query(settings);
  const Question question;
  Answer first(sizeof(crucible_query_out));
  expect_accepted(query(&question.in, first.out()), first, "the first query");
  for (int i = 0; i < 1000; ++i) {
    Answer again(sizeof(crucible_query_out));
    expect_accepted(query(&question.in, again.out()), again, "a repeated query");
    expect(again.out()->api == first.out()->api && to_string(again.out()->name) == to_string(first.out()->name),
           "every query gives the same answer", fmt::format("query {} gives another", i + 2));
  }
}

void pure(const Settings& settings) {
  const crucible_plugin_query_fn query = load_query(settings);
  const ProcessState state = process_state();
  const std::string files = open_files();
  const unsigned threads = thread_count();
  const std::size_t heap = mallinfo2().uordblks;
  const Question question;
  static crucible_query_out out;
  out.struct_size = sizeof(out);
  const std::int32_t code = query(&question.in, &out);
  const std::size_t heap_after = mallinfo2().uordblks;
  expect_equal(static_cast<std::uint64_t>(code), 0, "the query's answer");
  expect(heap_after == heap, "the query allocates nothing",
         fmt::format("{} bytes more are allocated", heap_after - heap));
  expect(open_files() == files, "the query opens no file", "open files were:\n" + files + "and are:\n" + open_files());
  expect(thread_count() == threads, "the query starts no thread",
         fmt::format("{} threads became {}", threads, thread_count()));
  expect_same_state(state, "after the query");
}

void without_environment(const Settings& settings) {
  clearenv();
  same_minor(settings);
}

void loading_is_quiet(const Settings& settings) {
  const ProcessState state = process_state();
  const unsigned threads = thread_count();
  const std::string files = open_files();
  load_query(settings);
  expect_same_state(state, "after the plugin was loaded");
  expect_threads(threads, "after the plugin was loaded");
  expect(open_files() == files, "loading leaves no file open",
         "open files were:\n" + files + "and are:\n" + open_files());
}

void unknown_tables(const Settings& settings) {
  const Subject subject(settings);
  for (const std::uint32_t id : {0u, 0x00ffu, 0x1234u, 0x7fffffffu, 0xffffffffu}) {
    expect(subject.api.interface_table(id) == nullptr,
           fmt::format("interface_table({:#x}) is NULL: there is no such table", id), "a table");
  }
}

void mandatory_tables(const Settings& settings) {
  const Subject subject(settings);
  static constexpr std::pair<std::uint32_t, std::string_view> kMandatory[] = {{CRUCIBLE_IF_DEVICE, "device"},
                                                                              {CRUCIBLE_IF_MEMORY, "memory"},
                                                                              {CRUCIBLE_IF_QUEUE, "queue"},
                                                                              {CRUCIBLE_IF_COMPILE, "compile"},
                                                                              {CRUCIBLE_IF_PLAN, "plan"}};
  for (const auto& [id, name] : kMandatory) {
    const void* const table = subject.api.interface_table(id);
    expect(table != nullptr, fmt::format("the mandatory table {} is there", name), "interface_table answers NULL");
    expect(subject.api.interface_table(id) == table, fmt::format("the table {} is in static storage", name),
           "a second question gives another address");
  }
}

void options_are_pure(const Settings& settings) {
  const Subject subject(settings);
  const auto describe = need(subject.api.describe_options, "describe_options");
  const std::string files = open_files();
  Items items;
  expect_ok(describe(items.sink(), items.user()), "describe_options before init");
  static constexpr std::string_view kTypes[] = {"bool", "u64", "str", "choice", "path"};
  for (const auto& option : items.calls) {
    expect(option.contains("name") && option.contains("type"), "every option has name and type",
           "one of them is missing");
    expect(std::ranges::find(kTypes, option.at("type")) != std::end(kTypes),
           fmt::format("the option {} has a known type", option.at("name")), option.at("type"));
    if (option.at("type") == "choice")
      expect(option.contains("choices"), fmt::format("the choice {} lists its choices", option.at("name")),
             "no key choices");
  }
  expect(open_files() == files, "describe_options opens no file", open_files());
  expect_error(describe(nullptr, nullptr), {CRUCIBLE_E_INVALID_ARGUMENT}, "describe_options without a sink");
}

}  // namespace

std::vector<Case> negotiation_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"negotiation." + std::move(name), Tier::kNegotiation, std::move(rule), true, run, 20};
  };
  return {
      make("load.quiet", "loading the object changes nothing in the process", loading_is_quiet),
      make("query.same_minor", "a host of the same version is accepted", same_minor),
      make("query.older_minor", "a host of the oldest minor that works, with a shorter answer, is accepted",
           older_minor),
      make("query.newer_minor", "a host of a newer minor, with a longer answer, is accepted", newer_minor),
      make("query.longer_question", "a longer question is accepted", longer_question),
      make("query.wrong_major", "a host of another major is rejected with a reason", wrong_major),
      make("query.wrong_magic", "a host with another magic is rejected with a reason", wrong_magic),
      make("query.short_question", "a question that is too short is rejected", short_question),
      make("query.short_answer",
           "a host without room for the answer is rejected, and nothing is written behind its end", short_answer),
      make("query.null_arguments", "NULL arguments are rejected", null_arguments),
      make("query.repeatable", "the query gives the same answer every time", repeatable),
      make("query.pure", "the query starts no thread, opens no file, allocates nothing", pure),
      make("query.without_environment", "the query needs no environment", without_environment),
      make("tables.mandatory", "the five mandatory tables are there", mandatory_tables),
      make("tables.unknown_ids", "an id that means nothing gets NULL", unknown_tables),
      make("options.pure", "options can be described before init, without touching anything", options_are_pure),
  };
}

}  // namespace crucible::conformance
