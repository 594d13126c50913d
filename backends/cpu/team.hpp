// The one set of threads that everything runs on. When oneDNN is loaded it brings OpenMP threads of its own, so our
// launches use those too: two sets that spin against each other would halve both. Without oneDNN the threads are ours.
#pragma once

#include <cstdint>
#include <memory>

namespace crucible_cpu {

/// Runs on every thread of the team. `count` may be less than Team::size() when the system gives fewer.
using TeamBody = void (*)(void* context, int index, int count);

class Team {
 public:
  explicit Team(int size) : size_(size) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  virtual ~Team() = default;
  /// Calls body(context, index, count) once for every index below count and returns when all have returned; index 0
  /// runs on the calling thread. The body must not throw. Threads: one caller at a time.
  virtual void run(TeamBody body, void* context) = 0;
  virtual const char* name() const = 0;
  int size() const { return size_; }

 private:
  int size_;
};

/// The team on the process's OpenMP threads (libgomp), or null when that library is not loaded.
std::unique_ptr<Team> make_openmp_team(int size);

/// A team of our own threads (pool.cpp).
std::unique_ptr<Team> make_own_team(int size);

/// Ends the OpenMP threads that belong to the calling thread, if there are any.
void stop_openmp_threads();

/// While it lives, OpenMP regions that the calling thread starts (oneDNN's) have `count` threads; 0: as many as they had, and OpenMP is not looked
/// for, which takes as long as a small plan where it is not there.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int count);
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;
  ~OpenMpThreads();

 private:
  int before_ = 0;
};

/// While it lives, the calling thread rounds to nearest and keeps subnormals, whatever the program around it has set.
class FloatMode {
 public:
  FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
  ~FloatMode();

 private:
  std::uint32_t before_ = 0;
};

/// The cores that this process may use.
int usable_cores();

/// Lets a spinning thread be polite to its sibling, and now and then to the rest of the machine.
class Spin {
 public:
  void wait();

 private:
  std::uint32_t turns_ = 0;
};

}  // namespace crucible_cpu
