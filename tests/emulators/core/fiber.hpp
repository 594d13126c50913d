// Fibers for the threads of one block: stacks of their own, switched to and from by the thread that runs the block. A
// fiber never moves to another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crucible::emulator {

class Fibers {
 public:
  /// What a fiber does each time that it is entered anew; it must call leave() at its end and goes on behind it.
  using Body = void (*)(void* context, std::uint32_t fiber);
  static constexpr std::size_t kStackBytes = 128 << 10;

  explicit Fibers(std::uint32_t most);
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  /// Runs the fiber until it leaves. The first time, and after abandon(), it starts with `body`.
  void enter(std::uint32_t fiber, Body body, void* context);
  /// In a fiber: back to who entered it.
  void leave(std::uint32_t fiber);
  /// Forgets what the fibers were doing; nothing on their stacks is destroyed.
  void abandon();

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace crucible::emulator
