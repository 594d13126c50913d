// One call through the layers, from before the plugin's function to after it. Used by the generated wrappers alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/layers/layers.hpp"
#include "plugins/layers/objects.hpp"

namespace crucible::layers {

/// What the layers know of one plugin.
struct State {
  abi::Tables next{};
  Options options;
  Objects objects;
  std::mutex output;  // one line of trace or report at a time
  std::atomic<std::uint64_t> call_count{0};
};

/// An error object of the layers' own.
crucible_status make_error(crucible_code code, std::string message);

class Call {
 public:
  Call(State& state, std::string_view function);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool validates() const { return state_.options.validate; }
  bool traces() const { return state_.options.trace; }

  // Rules. The first one that is broken is kept.
  void handle(std::string_view argument, std::string_view kind, const void* object);
  void pointer(std::string_view argument, const void* pointer);
  void array(std::string_view argument, const void* elements, std::uint64_t count);
  void text(std::string_view argument, crucible_str text);
  void power_of_two(std::string_view argument, std::uint64_t number);
  template <class Struct>
  void sized(std::string_view argument, const Struct* object) {
    if constexpr (requires { object->struct_size; }) {
      if (object != nullptr) smallest(argument, object->struct_size);
    }
  }
  /// The caller serialises calls on `object`: nobody else may be in one.
  void alone(const void* object);
  /// Nothing that was made from `object` may live.
  void childless(std::string_view kind, const void* object);
  bool is_refused() const { return !broken_.empty(); }
  crucible_status refusal();

  void note(std::string_view name, std::uint64_t number);
  void note(std::string_view name, crucible_str text);
  void note_object(std::string_view name, const void* object);
  void created(std::string_view kind, const void* object, const void* parent);
  void ends(std::string_view kind, const void* object);

  /// Runs the plugin's function; an exception that it lets out becomes an error, and is named.
  template <class Function>
  crucible_status guarded(Function function) {
    start();
    try {
      return function();
    } catch (...) {
      return escaped();
    }
  }
  crucible_status finish(crucible_status status);

 private:
  void start();
  void smallest(std::string_view argument, std::uint32_t struct_size);
  crucible_status escaped();
  void refuse(std::string text);
  void report(std::string_view text);
  void write_line(std::string_view outcome);

  State& state_;
  std::string_view function_;
  std::string broken_;
  std::string arguments_;  // of the trace, as JSON members
  const void* entered_ = nullptr;
  std::uint64_t start_ns_ = 0, time_ns_ = 0;
};

}  // namespace crucible::layers
