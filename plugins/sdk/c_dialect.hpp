// Kernels as text in a C-like language: C, CUDA C++, HIP C++ and OpenCL C are spellings of one dialect. A plugin with a
// compiler of such a language picks a table, or copies one and changes what its language spells differently.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/team_kernel.hpp"

namespace crucible::sdk {

/// How one language spells what kernels need. Texts with static storage.
struct Dialect {
  std::string_view name;      // as device.properties tells it
  std::string_view flags;     // what a compiler needs so that roundings stay where the text has them
  std::string_view preamble;  // types and CRUCIBLE_FN, in front of the mathematics (mathematics.hpp)
  std::string_view kernel;    // what stands before a kernel's name
  // true: NAME(void* const* buffers, const double* scalars, int64_t begin, int64_t end), called once per share of the
  // grid. false: NAME(T* b0, ..., double s0 or int64_t s0, ..., int64_t begin, int64_t end), started with any number of
  // threads.
  bool packed_arguments = false;
  std::string_view global;                 // address space of buffers, with a space behind it
  std::string_view restrict_;              // keyword, with a space behind it
  std::string_view bool_type;              // of values; in memory a bool is a byte
  std::string_view align_array;            // before a scratch array
  std::string_view first_item, item_step;  // of a thread in the grid loop; "" for a plain loop from begin to end
  std::string_view vector_loop, wide_vector_loop, unrolled_loop;  // the line before such a loop, or ""
  std::string_view ordered_loop;  // before a serial loop that sums floats, for compilers that change its order, or ""
  // For compilers that unroll without measure (thread-local arrays become thousands of registers, a kernel takes ten
  // seconds): before a loop that has a loop in it, the grid's and a tile's steps; before all others that have no line
  // of their own; or "".
  std::string_view outer_loop, inner_loop;
  std::string_view nan_f32, nan_f64, inf_f32, inf_f64;
  std::string_view wide_suffix;  // of 64-bit integers
  // true: crucible_f16 is the bits, and the preamble has crucible_f16_to_f32, crucible_f32_to_f16, crucible_f64_to_f16;
  // false: the language converts.
  bool f16_is_bits = false;
  // What every buffer's address is a multiple of, as kernels that multiply matrices may tell the compiler by
  // crucible_assume_aligned(p, n) of the preamble, so that it loads several numbers at once; 1: they do not. Their
  // plans refuse other addresses.
  std::uint32_t alignment = 1;
  // What a team of threads needs (team_kernel.hpp): the thread's number in its block, what stands before an array that
  // a block's threads share, and the statement at which a team meets and sees what its lanes wrote; "" where there are
  // no teams. With teams the preamble has what threads tell each other, for numbers of all types: all lanes of the team
  // ask for crucible_lane_xor(x, lane, width), crucible_lane_above(x, lane, distance) (anything where there is no such
  // lane) and crucible_from_lane(x, lane, which). Also accesses of several elements, whose bytes are a power of two up
  // to 16 and divide the address: crucible_read(elements, to, from) into an array of registers,
  // crucible_write(elements, to, from) out of one; and crucible_quotient(a, b), crucible_remainder(a, b) of an i64 that
  // is not negative by a positive number of 32 bits.
  // `meet_all`: where all threads of a block meet so.
  std::string_view thread, shared, meet, meet_all;
  // `local`: the address space of pointers to what a block's threads share, with a space behind it. Where a language
  // has one, only the kernel itself declares such arrays (shared_arrays()): the function gets them as its first
  // parameters.
  std::string_view local = {};
  // true: lanes tell each other numbers by an array `crucible_words` of a block's threads, a u64 for each.
  bool has_words = false;
};

/// An array that the threads of a block share.
struct SharedArray {
  std::string type, name, size;  // of each element; all of the dimensions, with brackets
};
/// Of a kernel that a team does, in the order of the function's parameters.
std::vector<SharedArray> shared_arrays(const Kernel& kernel, const Dialect& dialect, const Team& team);

/// What the text of `kernel` relies on for its buffers' addresses: a multiple of this.
std::uint32_t assumed_alignment(const Kernel& kernel, const Dialect& dialect, const Team& team = {});

/// "double" or "int64_t": how every language here spells the type of a kernel's scalar.
std::string_view scalar_type(Type type);

const Dialect& dialect_c();
const Dialect& dialect_cuda();
const Dialect& dialect_hip();
const Dialect& dialect_opencl();
/// OpenCL C for devices whose work-items run in step, with teams: sub-groups, whose width the kernel demands by
/// intel_reqd_sub_group_size; or groups of work-items, which tell each other numbers by memory. A team of the latter is
/// all of its group.
const Dialect& dialect_opencl_subgroups();
const Dialect& dialect_opencl_groups();

/// The function `name` for a kernel of read_kernel(). Deterministic, whatever the locale. Threads: any.
/// With a team, of plan_team() for this kernel: its threads do an item together, and a block has at most team.most
/// teams, its threads being a multiple of team.lanes.
std::string print_kernel(const Kernel& kernel, const Dialect& dialect, std::string_view name, const Team& team = {});

}  // namespace crucible::sdk
