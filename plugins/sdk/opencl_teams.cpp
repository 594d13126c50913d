// See opencl_teams.hpp.
#include "plugins/sdk/opencl_teams.hpp"

namespace crucible::sdk {
namespace {

// A number of any type goes as 32 or 64 bits. CRUCIBLE_TAKES_ and CRUCIBLE_GIVES_ are what functions need beside it.
#define CRUCIBLE_SDK_LANES                                                                                          \
  "#define CRUCIBLE_ASK_(type, word, to, from) \\\n"                                                                \
  "  CRUCIBLE_FN type __attribute__((overloadable)) crucible_from_lane_(type x, uint which CRUCIBLE_TAKES_) { \\\n" \
  "    return from(crucible_ask_##word(to(x), which CRUCIBLE_GIVES_)); }\n"                                         \
  "CRUCIBLE_ASK_(float, uint, as_uint, as_float) CRUCIBLE_ASK_(int, uint, as_uint, as_int)\n"                       \
  "CRUCIBLE_ASK_(double, ulong, as_ulong, as_double) CRUCIBLE_ASK_(long, ulong, as_ulong, as_long)\n"               \
  "CRUCIBLE_ASK_(char, uint, (uint), (char)) CRUCIBLE_ASK_(uchar, uint, (uint), (uchar))\n"                         \
  "CRUCIBLE_ASK_(short, uint, (uint), (short)) CRUCIBLE_ASK_(ushort, uint, (uint), (ushort))\n"                     \
  "CRUCIBLE_ASK_(bool, uint, (uint), (bool))\n"                                                                     \
  "#define crucible_lane_xor(x, lane, width) crucible_from_lane(x, lane, (lane) ^ (width))\n"                       \
  "#define crucible_lane_above(x, lane, distance) crucible_from_lane(x, lane, (lane) + (distance))\n"

// Pointers to vectors, for vload promises no alignment.
#define CRUCIBLE_SDK_ACCESSES                                                                                         \
  "#define crucible_read(n, to, from) crucible_read_##n(to, from)\n"                                                  \
  "#define crucible_write(n, to, from) crucible_write_##n(to, from)\n"                                                \
  "#define CRUCIBLE_ACCESS_(type, n) \\\n"                                                                            \
  "  CRUCIBLE_FN void __attribute__((overloadable)) crucible_read_##n( \\\n"                                          \
  "      __private type* to, const __global type* from) { \\\n"                                                       \
  "    const type##n group = *(const __global type##n*)from; vstore##n(group, 0, to); } \\\n"                         \
  "  CRUCIBLE_FN void __attribute__((overloadable)) crucible_write_##n( \\\n"                                         \
  "      __global type* to, const __private type* from) { *(__global type##n*)to = vload##n(0, from); }\n"            \
  "#define CRUCIBLE_ACCESS_ONE_(type) \\\n"                                                                           \
  "  CRUCIBLE_FN void __attribute__((overloadable)) crucible_read_1( \\\n"                                            \
  "      __private type* to, const __global type* from) { *to = *from; } \\\n"                                        \
  "  CRUCIBLE_FN void __attribute__((overloadable)) crucible_write_1( \\\n"                                           \
  "      __global type* to, const __private type* from) { *to = *from; } \\\n"                                        \
  "  CRUCIBLE_ACCESS_(type, 2)\n"                                                                                     \
  "#define CRUCIBLE_ACCESS_FOUR_(type) CRUCIBLE_ACCESS_ONE_(type) CRUCIBLE_ACCESS_(type, 4)\n"                        \
  "#define CRUCIBLE_ACCESS_EIGHT_(type) CRUCIBLE_ACCESS_FOUR_(type) CRUCIBLE_ACCESS_(type, 8)\n"                      \
  "#define CRUCIBLE_ACCESS_SIXTEEN_(type) CRUCIBLE_ACCESS_EIGHT_(type) CRUCIBLE_ACCESS_(type, 16)\n"                  \
  "CRUCIBLE_ACCESS_ONE_(double) CRUCIBLE_ACCESS_ONE_(long) CRUCIBLE_ACCESS_FOUR_(float) CRUCIBLE_ACCESS_FOUR_(int)\n" \
  "CRUCIBLE_ACCESS_EIGHT_(short) CRUCIBLE_ACCESS_EIGHT_(ushort)\n"                                                    \
  "CRUCIBLE_ACCESS_SIXTEEN_(char) CRUCIBLE_ACCESS_SIXTEEN_(uchar)\n"

// An i64 that counts items is seldom longer than 32 bits.
#define CRUCIBLE_SDK_OPENCL_QUOTIENTS                                                   \
  "CRUCIBLE_FN int64_t crucible_quotient(int64_t a, int32_t b) {\n"                     \
  "  return (uint64_t)a >> 32 == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b; }\n" \
  "CRUCIBLE_FN int64_t crucible_remainder(int64_t a, int32_t b) {\n"                    \
  "  return (uint64_t)a >> 32 == 0 ? (int64_t)((uint32_t)a % (uint32_t)b) : a % b; }\n"

constexpr std::string_view kSubgroups =
    "#ifdef cl_intel_subgroups\n"
    "#define crucible_shuffle_ intel_sub_group_shuffle\n"
    "#else\n"
    "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
    "#define crucible_shuffle_ sub_group_shuffle\n"
    "#endif\n"
    "#define CRUCIBLE_TAKES_\n"
    "#define CRUCIBLE_GIVES_\n"
    "CRUCIBLE_FN uint crucible_ask_uint(uint x, uint which) { return crucible_shuffle_(x, which); }\n"
    "CRUCIBLE_FN ulong crucible_ask_ulong(ulong x, uint which) {\n"
    "  const uint2 words = as_uint2(x);\n"
    "  return as_ulong((uint2)(crucible_shuffle_(words.x, which), crucible_shuffle_(words.y, which))); }\n"
    "#define crucible_from_lane(x, lane, which) \\\n"
    "  crucible_from_lane_(x, (uint)(which) & (get_max_sub_group_size() - 1))\n" CRUCIBLE_SDK_LANES
        CRUCIBLE_SDK_ACCESSES CRUCIBLE_SDK_OPENCL_QUOTIENTS;

// All work-items of a group ask at once.
constexpr std::string_view kGroups =
    "#define CRUCIBLE_TAKES_ , __local ulong (*crucible_words)\n"
    "#define CRUCIBLE_GIVES_ , crucible_words\n"
    "CRUCIBLE_FN ulong crucible_ask_ulong(ulong x, uint which CRUCIBLE_TAKES_) {\n"
    "  crucible_words[get_local_id(0)] = x;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  x = crucible_words[which];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  return x; }\n"
    "CRUCIBLE_FN uint crucible_ask_uint(uint x, uint which CRUCIBLE_TAKES_) {\n"
    "  return (uint)crucible_ask_ulong(x, which CRUCIBLE_GIVES_); }\n"
    "#define crucible_from_lane(x, lane, which) \\\n"
    "  crucible_from_lane_(x, ((uint)(get_local_id(0) - (lane)) + (uint)(which)) & (uint)(get_local_size(0) - 1) \\\n"
    "                      CRUCIBLE_GIVES_)\n" CRUCIBLE_SDK_LANES CRUCIBLE_SDK_ACCESSES CRUCIBLE_SDK_OPENCL_QUOTIENTS;

}  // namespace

std::string_view opencl_subgroup_preamble() { return kSubgroups; }
std::string_view opencl_group_preamble() { return kGroups; }

}  // namespace crucible::sdk
