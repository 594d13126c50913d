// PTX text to C text: what tests/emulators/nvidia runs in place of a GPU. Each kernel becomes one C function: resumable
// at its meetings (barriers, shuffles, votes) when it has any, else a loop over the threads of a block that a compiler
// can make vectors of. load.hpp compiles the text. What cannot be translated is refused by name; nothing is
// approximated except the instructions that PTX itself calls .approx.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulators/ptx/syntax.hpp"
#include "tests/emulators/ptx/warp_program.hpp"

namespace crucible::emulators::ptx {

struct Parameter {
  std::uint64_t offset = 0, size = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::uint64_t parameter_bytes = 0;
  std::uint32_t shared_bytes = 0, local_bytes = 0;  // shared: the static part
  std::uint32_t registers = 0;                      // that the text declares
  std::uint32_t meetings = 0, save_words = 0;
  bool resumable = false;  // its threads take turns: they meet, or keep what matrix.h has
  std::uint32_t max_threads = 1024;
  std::array<std::uint64_t, 3> required_block = {0, 0, 0};  // 0: any
  WarpProgram warps;                                        // of Telling::warps alone
};

/// A variable of the module in global or constant memory.
struct Global {
  std::string name, c_name;
  std::uint64_t bytes = 0;
};

/// What a text tells block->observer while it runs. Nothing of it is there, and nothing slower, where it is not asked
/// for.
struct Telling {
  bool work = false;    // accesses to memory outside of the block, and operations on floats
  bool shared = false;  // accesses to shared memory
  bool warps = false;   // what each lane does: warp_program.hpp
  bool any() const { return work || shared || warps; }
};

struct Translation {
  Telling telling;
  std::string target;  // sm_90
  std::string text;    // GNU C17, complete
  std::vector<Kernel> kernels;
  std::vector<Global> globals;
};

/// Functions in the text: emu_thread_N(EmuBlock*, EmuThread*) for kernel N if resumable, else emu_block_N.
/// Errors: throws Error (syntax.hpp). Threads: any.
Translation translate(std::string_view ptx, Telling telling = {});

}  // namespace crucible::emulators::ptx
