// Queues and timelines for cases: made on construction, destroyed at the end, every call expected to succeed.
#pragma once

#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {

inline constexpr std::uint64_t kSecond = 1'000'000'000;

class Timeline {
 public:
  explicit Timeline(Opened& opened, std::uint64_t initial = 0) : opened_(opened) {
    need(opened.tables.queue.timeline_create, "queue.timeline_create");
    expect_ok(opened.tables.queue.timeline_create(opened.device, initial, &handle_), "queue.timeline_create");
  }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline() {
    expect_ok(must(opened_.tables.queue.timeline_destroy, "queue.timeline_destroy")(handle_), "queue.timeline_destroy");
  }
  std::uint64_t value() const {
    std::uint64_t value = 0;
    expect_ok(must(opened_.tables.queue.timeline_query, "queue.timeline_query")(handle_, &value),
              "queue.timeline_query");
    return value;
  }
  void signal(std::uint64_t value) {
    expect_ok(must(opened_.tables.queue.timeline_signal, "queue.timeline_signal")(handle_, value),
              "queue.timeline_signal");
  }
  /// Waits at most ten seconds.
  void wait(std::uint64_t value) {
    expect_ok(must(opened_.tables.queue.timeline_wait, "queue.timeline_wait")(handle_, value, 10 * kSecond),
              "queue.timeline_wait for a signal that was submitted, 10 s,");
  }
  crucible_status try_wait(std::uint64_t value, std::uint64_t timeout_ns) {
    return must(opened_.tables.queue.timeline_wait, "queue.timeline_wait")(handle_, value, timeout_ns);
  }
  crucible_point at(std::uint64_t value) const { return {handle_, value}; }
  crucible_timeline* handle() const { return handle_; }

 private:
  Opened& opened_;
  crucible_timeline* handle_ = nullptr;
};

class Queue {
 public:
  explicit Queue(Opened& opened) : opened_(opened) {
    need(opened.tables.queue.create, "queue.create");
    expect_ok(opened.tables.queue.create(opened.device, &handle_), "queue.create");
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() {
    if (handle_ != nullptr) destroy();
  }
  void destroy() {
    expect_ok(must(opened_.tables.queue.destroy, "queue.destroy")(handle_), "queue.destroy");
    handle_ = nullptr;
  }
  void flush() { expect_ok(must(opened_.tables.queue.flush, "queue.flush")(handle_), "queue.flush"); }
  crucible_queue* handle() const { return handle_; }
  void submit(const Plan& plan, const std::vector<crucible_point>& waits, const std::vector<crucible_point>& signals) {
    expect_ok(must(opened_.tables.queue.submit, "queue.submit")(
                  handle_, plan.handle(), waits.data(), static_cast<std::uint32_t>(waits.size()), signals.data(),
                  static_cast<std::uint32_t>(signals.size())),
              "queue.submit");
  }

 private:
  Opened& opened_;
  crucible_queue* handle_ = nullptr;
};

}  // namespace crucible::conformance
