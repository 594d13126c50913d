// Rules, notes and the two lines that a call may leave: one in the trace, one in the report of misuse.
#include "plugins/layers/call.hpp"

#include <bit>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace crucible::layers {
namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

constexpr std::size_t kLongestText = 120;  // of a traced argument: kernel texts are pages long

std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kLongestText)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongestText ? "...\"" : "\"");
}

std::string_view view(crucible_str text) { return text.data == nullptr ? "" : std::string_view(text.data, text.size); }

/// An error with a text of its own.
struct OwnError {
  crucible_error base;
  crucible_code code;
  std::string message;
};

const crucible_error_table kOwnErrorTable = {
    sizeof(crucible_error_table),
    0,
    [](crucible_error* self) { delete reinterpret_cast<OwnError*>(self); },
    [](const crucible_error* self) { return reinterpret_cast<const OwnError*>(self)->code; },
    [](const crucible_error* self) {
      const std::string& message = reinterpret_cast<const OwnError*>(self)->message;
      return crucible_str{message.data(), message.size()};
    },
    [](const crucible_error*, std::uint32_t, crucible_str*, crucible_str*) -> std::uint32_t { return 0; }};

}  // namespace

crucible_status make_error(crucible_code code, std::string message) {
  return &(new OwnError{{&kOwnErrorTable}, code, std::move(message)})->base;
}

Call::Call(State& state, std::string_view function) : state_(state), function_(function) {
  state_.call_count.fetch_add(1, std::memory_order_relaxed);
}

Call::~Call() {
  if (entered_ != nullptr) state_.objects.leave(entered_);
}

void Call::refuse(std::string text) {
  if (broken_.empty()) broken_ = std::move(text);
}

void Call::handle(std::string_view argument, std::string_view kind, const void* object) {
  Object found;
  const std::string what = std::string(argument) + ": ";
  if (object == nullptr) return refuse(what + "no " + std::string(kind) + " was given");
  if (!state_.objects.find(object, found))
    return refuse(what + "a " + std::string(kind) + " that does not live (destroyed, or never made)");
  if (found.kind != kind) refuse(what + "a " + std::string(kind) + " is wanted, " + describe(found) + " was given");
}

void Call::pointer(std::string_view argument, const void* pointer) {
  if (pointer == nullptr) refuse(std::string(argument) + ": may not be NULL");
}

void Call::array(std::string_view argument, const void* elements, std::uint64_t count) {
  if (elements == nullptr && count != 0)
    refuse(std::string(argument) + ": NULL for " + std::to_string(count) + " elements");
}

void Call::text(std::string_view argument, crucible_str text) {
  if (text.data == nullptr && text.size != 0)
    refuse(std::string(argument) + ": NULL for a text of " + std::to_string(text.size) + " bytes");
}

void Call::power_of_two(std::string_view argument, std::uint64_t number) {
  if (!std::has_single_bit(number))
    refuse(std::string(argument) + ": " + std::to_string(number) + " is not a power of two");
}

void Call::smallest(std::string_view argument, std::uint32_t struct_size) {
  if (struct_size < sizeof(std::uint32_t))
    refuse(std::string(argument) + ": struct_size is " + std::to_string(struct_size));
}

void Call::alone(const void* object) {
  if (is_refused()) return;
  Object user;
  if (state_.objects.enter(object, user)) {
    entered_ = object;
    return;
  }
  refuse(describe(user) + " is in use by another thread: calls tagged [OBJ] are serialised by the caller");
}

void Call::childless(std::string_view kind, const void* object) {
  const std::vector<Object> children = object == nullptr ? std::vector<Object>{} : state_.objects.children(object);
  if (children.empty()) return;
  refuse(std::string(kind) + ": " + std::to_string(children.size()) +
         " objects that were made from it live, the first is " + describe(children.front()) + " of " +
         std::string(children.front().made_by));
}

crucible_status Call::refusal() {
  const std::string text = "misuse of " + std::string(function_) + ": " + broken_;
  report(text);
  if (traces()) write_line("refused");
  return make_error(CRUCIBLE_E_INVALID_ARGUMENT, text);
}

void Call::note(std::string_view name, std::uint64_t number) {
  if (traces()) arguments_ += ", \"" + std::string(name) + "\": " + std::to_string(number);
}

void Call::note(std::string_view name, crucible_str text) {
  if (traces()) arguments_ += ", \"" + std::string(name) + "\": " + quoted(view(text));
}

void Call::note_object(std::string_view name, const void* object) {
  Object found;
  const std::string text = state_.objects.find(object, found) ? describe(found)
                           : object == nullptr                ? "NULL"
                                                              : "unknown";
  arguments_ += ", \"" + std::string(name) + "\": \"" + text + "\"";
}

void Call::created(std::string_view kind, const void* object, const void* parent) {
  if (object == nullptr) return report(std::string(function_) + " succeeded and gave no " + std::string(kind));
  state_.objects.add(kind, object, function_, parent);
  if (traces()) note_object(kind == "kernel" ? "kernel" : "made", object);
}

void Call::ends(std::string_view, const void* object) {
  if (entered_ == object) entered_ = nullptr;
  state_.objects.remove(object);
}

void Call::start() { start_ns_ = now_ns(); }

crucible_status Call::escaped() {
  std::string what = "an exception of unknown type";
  try {
    throw;
  } catch (const std::exception& error) {
    what = std::string("the exception \"") + error.what() + "\"";
  } catch (...) {
  }
  const std::string text =
      std::string(function_) + " let " + what + " cross the boundary: a plugin catches everything at its edge";
  report(text);
  return make_error(CRUCIBLE_E_INTERNAL, text);
}

crucible_status Call::finish(crucible_status status) {
  time_ns_ = now_ns() - start_ns_;
  if (status != nullptr && validates() && (status->table == nullptr || status->table->struct_size < 4 * sizeof(void*) ||
                                           status->table->code(status) == CRUCIBLE_OK)) {
    const std::string text =
        std::string(function_) + " returned an error object " +
        (status->table == nullptr ? "without functions" : "whose table is too short, or whose code is OK");
    report(text);
    status = make_error(CRUCIBLE_E_INTERNAL, text);  // the object cannot be destroyed safely
  }
  if (traces()) write_line(status == nullptr ? "ok" : "error");
  return status;
}

void Call::report(std::string_view text) {
  const std::lock_guard lock(state_.output);
  if (state_.options.report) state_.options.report("plugin " + state_.options.plugin + ": " + std::string(text));
}

void Call::write_line(std::string_view outcome) {
  const std::string line =
      "{\"plugin\": " + quoted(state_.options.plugin) + ", \"call\": \"" + std::string(function_) +
      "\", \"start_ns\": " + std::to_string(start_ns_) + ", \"time_ns\": " + std::to_string(time_ns_) +
      ", \"thread\": " + std::to_string(std::hash<std::thread::id>{}(std::this_thread::get_id()) % 100000) +
      ", \"result\": \"" + std::string(outcome) + "\"" + arguments_ + "}";
  const std::lock_guard lock(state_.output);
  if (state_.options.write_trace) state_.options.write_trace(line);
}

}  // namespace crucible::layers
