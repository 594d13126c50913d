/* The second part of each translated text, behind core/kernel_abi.h: addresses, bits, atomic operations and the
   exchange between the lanes of a warp. GNU C17; compiled only with what ptx/ translates. */
#pragma once
#include <math.h>
#include <string.h>

#define SI static inline __attribute__((always_inline, unused))

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned __int128 u128;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef __int128 s128;
typedef u8 __attribute__((may_alias)) mu8;
typedef u16 __attribute__((may_alias)) mu16;
typedef u32 __attribute__((may_alias)) mu32;
typedef u64 __attribute__((may_alias)) mu64;
typedef s8 __attribute__((may_alias)) ms8;
typedef s16 __attribute__((may_alias)) ms16;
typedef s32 __attribute__((may_alias)) ms32;
typedef s64 __attribute__((may_alias)) ms64;

/* ---- addresses. Without the tag an address is a host's, which a device cannot follow: turning the bit over, not
   clearing it, makes such an access fault too. Offsets behind the end of shared and local memory fault as well. ---- */
SI char* at(u64 address) { return (char*)(address ^ EMU_TAG); }
SI u64 generic(const void* p) { return (u64)(uintptr_t)p ^ EMU_TAG; }
SI char* inside(char* memory, u32 offset, u32 limit) {
  if (__builtin_expect(offset >= limit, 0)) {
    __asm__ volatile(""); /* a jump that is never taken costs less than a choice that each access waits for */
    return (char*)(EMU_TAG | offset);
  }
  return memory + offset;
}
/* What several elements go through at once has to be a multiple of them all, a power of two; other addresses fault. */
SI char* aligned(char* p, u32 bytes) {
  if (__builtin_expect((uintptr_t)p & (bytes - 1), 0)) {
    __asm__ volatile("");
    return (char*)(EMU_TAG | ((uintptr_t)p & (bytes - 1)));
  }
  return p;
}
SI u32 is_within(u64 address, char* memory, u32 limit) { return (u64)(at(address) - memory) < limit; }
SI u64 clock_now(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

/* ---- bits ---- */
SI u32 shl_32(u32 a, u32 n) { return n > 31 ? 0 : a << (n & 31); }
SI u64 shl_64(u64 a, u32 n) { return n > 63 ? 0 : a << (n & 63); }
SI u16 shl_16(u16 a, u32 n) { return n > 15 ? 0 : (u16)(a << (n & 15)); }
SI u32 shr_u32(u32 a, u32 n) { return n > 31 ? 0 : a >> (n & 31); }
SI u64 shr_u64(u64 a, u32 n) { return n > 63 ? 0 : a >> (n & 63); }
SI u16 shr_u16(u16 a, u32 n) { return n > 15 ? 0 : (u16)(a >> (n & 15)); }
SI u32 shr_s32(u32 a, u32 n) { return (u32)((s32)a >> (n > 31 ? 31 : n)); }
SI u64 shr_s64(u64 a, u32 n) { return (u64)((s64)a >> (n > 63 ? 63 : n)); }
SI u16 shr_s16(u16 a, u32 n) { return (u16)((s16)a >> (n > 15 ? 15 : n)); }
SI u32 shift_count_wrap(u32 n) { return n & 31; }
SI u32 shift_count_clamp(u32 n) { return n > 32 ? 32 : n; }
SI u32 shf_l(u32 low, u32 high, u32 n) { return (u32)((((u64)high << 32 | low) << n) >> 32); }
SI u32 shf_r(u32 low, u32 high, u32 n) { return (u32)(((u64)high << 32 | low) >> n); }
SI u32 count_leading_32(u32 a) { return a ? (u32)__builtin_clz(a) : 32; }
SI u32 count_leading_64(u64 a) { return a ? (u32)__builtin_clzll(a) : 64; }
SI u32 find_32(u32 a) { return a ? 31 - (u32)__builtin_clz(a) : ~0u; }
SI u32 find_64(u64 a) { return a ? 63 - (u32)__builtin_clzll(a) : ~0u; }
SI u64 reverse_64(u64 a) {
  a = (a >> 1 & 0x5555555555555555ull) | (a & 0x5555555555555555ull) << 1;
  a = (a >> 2 & 0x3333333333333333ull) | (a & 0x3333333333333333ull) << 2;
  a = (a >> 4 & 0x0f0f0f0f0f0f0f0full) | (a & 0x0f0f0f0f0f0f0f0full) << 4;
  return __builtin_bswap64(a);
}
SI u32 reverse_32(u32 a) { return (u32)(reverse_64(a) >> 32); }
SI u64 low_bits(u32 n) { return n > 63 ? ~0ull : (1ull << n) - 1; }
SI u64 extract_bits(u64 a, u32 position, u32 length, u32 width, int is_signed) {
  position &= 255, length &= 255;
  if (length == 0) return 0;
  if (position >= width) return is_signed && (a >> (width - 1) & 1) ? ~0ull : 0;
  u32 last = position + length > width ? width - 1 : position + length - 1;
  u64 mask = low_bits(last - position + 1);
  return (a >> position & mask) | (is_signed && (a >> last & 1) ? ~mask : 0);
}
SI u64 insert_bits(u64 a, u64 into, u32 position, u32 length, u32 width) {
  position &= 255, length &= 255;
  if (length == 0 || position >= width) return into;
  u64 mask = low_bits(length) << position;
  return (into & ~mask) | (a << position & mask);
}
SI u32 permute_bytes(u32 a, u32 b, u32 selector) {
  u64 bytes = (u64)b << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    u32 which = selector >> (4 * i) & 15, byte = (u32)(bytes >> (8 * (which & 7))) & 255;
    if (which & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
SI u32 logic3(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 i = 0; i < 8; ++i)
    if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return result;
}
#define EMU_DOT(name, A, B)                                                                       \
  SI u32 dp4a_##name(u32 a, u32 b, u32 c) {                                                       \
    for (int i = 0; i < 4; ++i) c += (u32)((s32)(A)(a >> 8 * i) * (s32)(B)(b >> 8 * i));          \
    return c;                                                                                     \
  }                                                                                               \
  SI u32 dp2a_##name(u32 a, u32 b, u32 c, int high) {                                             \
    for (int i = 0; i < 2; ++i) c += (u32)((s32)(A##2)(a >> 16 * i) * (s32)(B)(b >> (8 * i + 16 * high))); \
    return c;                                                                                     \
  }
typedef u16 u82;
typedef s16 s82;
EMU_DOT(u32_u32, u8, u8)
EMU_DOT(u32_s32, u8, s8)
EMU_DOT(s32_u32, s8, u8)
EMU_DOT(s32_s32, s8, s8)
SI u32 clamp_s32(s64 v) { return (u32)(v > 2147483647 ? 2147483647 : v < -2147483647 - 1 ? -2147483647 - 1 : v); }
SI u32 sad_u32(u32 a, u32 b, u32 c) { return c + (a < b ? b - a : a - b); }
SI u32 sad_s32(u32 a, u32 b, u32 c) { return c + ((s32)a < (s32)b ? b - a : a - b); }
/* Division by zero gives all bits, the remainder gives the dividend, as devices do; INT_MIN / -1 wraps. */
#define EMU_DIVIDE(U, S, un, sn)                                                                                  \
  SI U div_##un(U a, U b) { return b ? a / b : (U)~(U)0; }                                                        \
  SI U rem_##un(U a, U b) { return b ? a % b : a; }                                                               \
  SI U div_##sn(U a, U b) { return b == 0 ? (U)~(U)0 : b == (U)~(U)0 ? (U)(0 - a) : (U)((S)a / (S)b); }           \
  SI U rem_##sn(U a, U b) { return b == 0 ? a : b == (U)~(U)0 ? 0 : (U)((S)a % (S)b); }
EMU_DIVIDE(u16, s16, u16, s16)
EMU_DIVIDE(u32, s32, u32, s32)
EMU_DIVIDE(u64, s64, u64, s64)

/* ---- atomic operations ---- */
#define EMU_ATOM(name, U, expression)                                                              \
  SI U name(char* p, U v) {                                                                        \
    U old = __atomic_load_n((U*)p, __ATOMIC_RELAXED), next;                                        \
    do next = (U)(expression);                                                                     \
    while (!__atomic_compare_exchange_n((U*)p, &old, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)); \
    return old;                                                                                    \
  }
#define EMU_ATOM_BITS(U, name)                                                                     \
  SI U atom_exch_##name(char* p, U v) { return __atomic_exchange_n((U*)p, v, __ATOMIC_ACQ_REL); }  \
  SI U atom_and_##name(char* p, U v) { return __atomic_fetch_and((U*)p, v, __ATOMIC_ACQ_REL); }    \
  SI U atom_or_##name(char* p, U v) { return __atomic_fetch_or((U*)p, v, __ATOMIC_ACQ_REL); }      \
  SI U atom_xor_##name(char* p, U v) { return __atomic_fetch_xor((U*)p, v, __ATOMIC_ACQ_REL); }
#define EMU_ATOM_CAS(U, name)                                                                      \
  SI U atom_cas_##name(char* p, U expected, U v) {                                                 \
    __atomic_compare_exchange_n((U*)p, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);       \
    return expected;                                                                               \
  }
#define EMU_ATOM_NUMBER(U, S, un, sn)                                                                \
  SI U atom_add_##un(char* p, U v) { return __atomic_fetch_add((U*)p, v, __ATOMIC_ACQ_REL); }      \
  SI U atom_add_##sn(char* p, U v) { return __atomic_fetch_add((U*)p, v, __ATOMIC_ACQ_REL); }      \
  EMU_ATOM(atom_max_##un, U, old > v ? old : v)                                                     \
  EMU_ATOM(atom_min_##un, U, old < v ? old : v)                                                     \
  EMU_ATOM(atom_max_##sn, U, (S)old > (S)v ? old : v)                                               \
  EMU_ATOM(atom_min_##sn, U, (S)old < (S)v ? old : v)
EMU_ATOM_BITS(u32, b32)
EMU_ATOM_BITS(u64, b64)
EMU_ATOM_CAS(u16, b16)
EMU_ATOM_CAS(u32, b32)
EMU_ATOM_CAS(u64, b64)
EMU_ATOM_NUMBER(u32, s32, u32, s32)
EMU_ATOM_NUMBER(u64, s64, u64, s64)
EMU_ATOM(atom_inc_u32, u32, old >= v ? 0 : old + 1)
EMU_ATOM(atom_dec_u32, u32, old == 0 || old > v ? v : old - 1)

#define bool_and(a, b) ((a) & (b))
#define bool_or(a, b) ((a) | (b))
#define bool_xor(a, b) ((a) ^ (b))

/* ---- lanes ---- */
SI u32 below(u32 lane) { return (1u << lane) - 1; }
/* The lane that shfl.sync reads, and whether it is in range (PTX ISA, shfl.sync). */
SI u32 lane_up(u32 lane, u32 b, u32 c, u32* in_range) {
  u32 limit = (lane & (c >> 8 & 31)) | (c & 31 & ~(c >> 8 & 31));
  s32 from = (s32)lane - (s32)(b & 31);
  *in_range = from >= (s32)limit;
  return *in_range ? (u32)from : lane;
}
SI u32 lane_limit(u32 lane, u32 c) { return (lane & (c >> 8 & 31)) | (c & 31 & ~(c >> 8 & 31)); }
SI u32 lane_down(u32 lane, u32 b, u32 c, u32* in_range) {
  u32 from = lane + (b & 31);
  *in_range = from <= lane_limit(lane, c);
  return *in_range ? from : lane;
}
SI u32 lane_bfly(u32 lane, u32 b, u32 c, u32* in_range) {
  u32 from = lane ^ (b & 31);
  *in_range = from <= lane_limit(lane, c);
  return *in_range ? from : lane;
}
SI u32 lane_idx(u32 lane, u32 b, u32 c, u32* in_range) {
  u32 segment = c >> 8 & 31, from = (lane & segment) | (b & 31 & ~segment);
  *in_range = from <= lane_limit(lane, c);
  return *in_range ? from : lane;
}
SI const u64* lanes(EmuBlock* b, EmuThread* t) { return b->offered + (t->linear & ~31u); }
SI u64 lane_value(EmuBlock* b, EmuThread* t, u32 lane) { return lanes(b, t)[lane]; }
/* Those of the mask that have not ended. */
SI u32 takes_part(EmuBlock* b, EmuThread* t, u32 lane) {
  return t->mask >> lane & 1 && b->present[(t->linear & ~31u) + lane];
}
SI u32 vote_ballot(EmuBlock* b, EmuThread* t) {
  u32 set = 0;
  for (u32 i = 0; i < 32; ++i)
    if (takes_part(b, t, i) && lanes(b, t)[i]) set |= 1u << i;
  return set;
}
SI u32 vote_all(EmuBlock* b, EmuThread* t) {
  u32 there = 0;
  for (u32 i = 0; i < 32; ++i) there |= takes_part(b, t, i) << i;
  return vote_ballot(b, t) == there;
}
SI u32 vote_any(EmuBlock* b, EmuThread* t) { return vote_ballot(b, t) != 0; }
SI u32 vote_uni(EmuBlock* b, EmuThread* t) { return vote_any(b, t) == vote_all(b, t); }
SI u32 match_any(EmuBlock* b, EmuThread* t) {
  u32 set = 0;
  for (u32 i = 0; i < 32; ++i)
    if (takes_part(b, t, i) && lanes(b, t)[i] == t->value) set |= 1u << i;
  return set;
}
SI u32 match_all(EmuBlock* b, EmuThread* t) { return match_any(b, t) == (u32)t->mask ? (u32)t->mask : 0; }
#define EMU_REDUX(name, first, expression)             \
  SI u32 redux_##name(EmuBlock* b, EmuThread* t) {     \
    u32 r = first;                                     \
    for (u32 i = 0; i < 32; ++i)                       \
      if (takes_part(b, t, i)) {                       \
        u32 v = (u32)lanes(b, t)[i];                   \
        r = (u32)(expression);                         \
      }                                                \
    return r;                                          \
  }
EMU_REDUX(add_u32, 0, r + v)
EMU_REDUX(add_s32, 0, r + v)
EMU_REDUX(and_b32, ~0u, r & v)
EMU_REDUX(or_b32, 0, r | v)
EMU_REDUX(xor_b32, 0, r ^ v)
EMU_REDUX(min_u32, ~0u, r < v ? r : v)
EMU_REDUX(max_u32, 0, r > v ? r : v)
EMU_REDUX(min_s32, 0x7fffffff, (s32)r < (s32)v ? r : v)
EMU_REDUX(max_s32, 0x80000000u, (s32)r > (s32)v ? r : v)
/* Barriers that reduce. Three pairs of counts (true, false) take turns: while one is counted, the one before may still
   be read, and the one behind is made fresh. 0xCD is what shared memory begins with. */
SI void reduce_give(char* place, u32 turn, u32 value) {
  mu32 *now = (mu32*)place + 2 * turn, *next = (mu32*)place + 2 * ((turn + 1) % 3);
  if (now[0] == 0xcdcdcdcdu) now[0] = now[1] = 0;
  next[0] = 0xcdcdcdcdu;
  ++now[value ? 0 : 1];
}
SI u32 reduce_popc(char* place, u32 turn) { return ((mu32*)place)[2 * turn]; }
SI u32 reduce_or(char* place, u32 turn) { return ((mu32*)place)[2 * turn] != 0; }
SI u32 reduce_and(char* place, u32 turn) { return ((mu32*)place)[2 * turn + 1] == 0; }
