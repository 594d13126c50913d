/* Stands before texts with matrix instructions or asynchronous copies alone, behind the other parts: fragments that the
   lanes of a warp give each other, products of them, and copies that take place when they are waited for. Layouts as in
   PTX's manual. */
#pragma once

typedef struct EmuFragment {
  u32 words[6]; /* of a product: A's in the first four, B's behind */
  u32 place;    /* the instruction */
} EmuFragment;
typedef struct EmuCopy {
  char* to;
  const char* from;
  u32 bytes, given, group; /* `given` are copied, zeros fill the rest */
} EmuCopy;
enum { kCopies = 32 };
/* What a thread keeps over its meetings, at the front of EmuThread.save; the translator knows its size. Fragments take
   turns: while one is read by lanes that are behind, the next may be written. */
typedef struct EmuKept {
  EmuFragment fragments[2];
  u32 turn, first, count, groups;
  EmuCopy copies[kCopies];
} EmuKept;
_Static_assert(sizeof(EmuKept) == 8 * EMU_KEPT_WORDS, "EMU_KEPT_WORDS is not the size of EmuKept");

SI EmuKept* kept(const EmuThread* t) { return (EmuKept*)t->save; }
SI void keep_nothing(EmuThread* t) { kept(t)->turn = kept(t)->first = kept(t)->count = kept(t)->groups = 0; }

/* ---- lanes ---- */
SI void fragment_give(EmuThread* t, u32 place, const u32* a, const u32* b) {
  EmuFragment* const mine = &kept(t)->fragments[kept(t)->turn ^= 1];
  memcpy(mine->words, a, 16);
  memcpy(mine->words + 4, b, 8);
  mine->place = place;
  t->mask = ~0u;
  t->value = (u64)(uintptr_t)mine;
}
/* The fragments of a whole warp. 0 unless all 32 lanes are there, at the same instruction. */
SI int fragments_met(const EmuBlock* b, const EmuThread* t, u32 place, const EmuFragment** lanes) {
  const u32 first = t->linear & ~31u;
  if (first + 32 > b->thread_count) return 0;
  for (u32 i = 0; i < 32; ++i) {
    const EmuFragment* const of = kept(&b->threads[first + i])->fragments;
    const u64 offered = b->offered[first + i];
    if (!b->present[first + i] || (offered != (u64)(uintptr_t)of && offered != (u64)(uintptr_t)(of + 1))) return 0;
    lanes[i] = (const EmuFragment*)(uintptr_t)offered;
    if (lanes[i]->place != place) return 0;
  }
  return 1;
}
/* Lanes that are not all there: waits for more threads than there are, which is told as a meeting that never takes
 * place. */
SI int never_met(EmuThread* t) {
  t->wait_id = 0;
  t->wait_count = ~0u;
  return EMU_BARRIER;
}

/* ---- ldmatrix: lane i of 8 n gave row i % 8 of matrix i / 8 ---- */
static __attribute__((noinline, unused)) int ldmatrix(const EmuBlock* b, const EmuThread* t, u32 place, u32 n,
                                                      int transposed, u32* d) {
  const EmuFragment* lanes[32];
  const u32 group = (t->linear & 31) >> 2, member = t->linear & 3;
  if (!fragments_met(b, t, place, lanes)) return 0;
  for (u32 j = 0; j < n; ++j) {
    const EmuFragment* const* const rows = lanes + 8 * j;
    d[j] = transposed ? (rows[2 * member]->words[group / 2] >> 16 * (group & 1) & 0xffff) |
                            (rows[2 * member + 1]->words[group / 2] >> 16 * (group & 1)) << 16
                      : rows[group]->words[member];
  }
  return 1;
}

/* ---- products of a warp, 16 by 8. Element k of a row of A, and of a column of B, lies in word k / (4 n) of lane k / n
   % 4 of its group, n elements to a word. Products are exact. Those of floats are summed in double, the accumulator
   first, then k upwards, and rounded once. ---- */
#define element_f16(word, i) f16((u16)((word) >> 16 * (i)))
#define element_bf16(word, i) bf16((u16)((word) >> 16 * (i)))
#define element_tf32(word, i) f32((word) & ~0x1fffu)
#define element_s8(word, i) (s8)((word) >> 8 * (i))
#define element_u8(word, i) (u8)((word) >> 8 * (i))
#define EMU_MMA(name, Sum, a, b_, n, from_c, to_d)                                                                     \
  static __attribute__((noinline, unused)) int mma_##name(const EmuBlock* b, const EmuThread* t, u32 place, u32 words, \
                                                          const u32* c, u32* d) {                                      \
    const EmuFragment* lanes[32];                                                                                      \
    const u32 group = (t->linear & 31) >> 2, member = t->linear & 3;                                                   \
    if (!fragments_met(b, t, place, lanes)) return 0;                                                                  \
    for (u32 i = 0; i < 4; ++i) {                                                                                      \
      const u32 column = 2 * member + (i & 1);                                                                         \
      Sum sum = from_c(c[i]);                                                                                          \
      for (u32 k = 0; k < 4 * n * words; ++k) {                                                                        \
        const u32 word = k / (4 * n), lane = k / n % 4;                                                                \
        sum += (Sum)element_##a(lanes[4 * group + lane]->words[2 * word + (i >> 1)], k % n) *                          \
               (Sum)element_##b_(lanes[4 * column + lane]->words[4 + word], k % n);                                    \
      }                                                                                                                \
      d[i] = to_d(sum);                                                                                                \
    }                                                                                                                  \
    return 1;                                                                                                          \
  }
#define sum_to_f32(sum) to_f32((float)(sum))
#define sum_to_f16(sum) to_f16(odd_f32(sum))
EMU_MMA(f16_f32, double, f16, f16, 2, f32, sum_to_f32)
EMU_MMA(bf16_f32, double, bf16, bf16, 2, f32, sum_to_f32)
EMU_MMA(tf32_f32, double, tf32, tf32, 1, f32, sum_to_f32)
EMU_MMA(f16_f16, double, f16, f16, 2, f16, sum_to_f16)
#define EMU_MMA_INTEGERS(a, b_)                                \
  EMU_MMA(a##_##b_, s64, a, b_, 4, (s32), (u32))               \
  EMU_MMA(a##_##b_##_satfinite, s64, a, b_, 4, (s32), clamp_s32)
EMU_MMA_INTEGERS(s8, s8)
EMU_MMA_INTEGERS(s8, u8)
EMU_MMA_INTEGERS(u8, s8)
EMU_MMA_INTEGERS(u8, u8)

/* ---- asynchronous copies. They take place as late as they may, so that a wait that is missing shows; when there are
   more than a thread can keep, the oldest one takes place at once, which a device may do too. ---- */
SI void copy_finish(EmuBlock* b, EmuThread* t) {
  EmuKept* const k = kept(t);
  const EmuCopy* const copy = &k->copies[k->first];
  if (b->observer) b->observer->access(b->observer, t, (u64)(uintptr_t)copy->to, copy->bytes, EMU_WRITE);
  memcpy(copy->to, copy->from, copy->given);
  memset(copy->to + copy->given, 0, copy->bytes - copy->given);
  k->first = (k->first + 1) % kCopies;
  --k->count;
}
static __attribute__((noinline, unused)) void copy_begin(EmuBlock* b, EmuThread* t, char* to, char* from, u32 bytes,
                                                         u32 given) {
  EmuKept* const k = kept(t);
  if (k->count == kCopies) copy_finish(b, t);
  k->copies[(k->first + k->count++) % kCopies] =
      (EmuCopy){aligned(to, bytes), aligned(from, bytes), bytes, given < bytes ? given : bytes, k->groups};
}
SI void copy_commit(EmuThread* t) { ++kept(t)->groups; }
/* All but those of the last `pending` groups that were committed, and what came behind. */
static __attribute__((noinline, unused)) void copy_wait_group(EmuBlock* b, EmuThread* t, u32 pending) {
  EmuKept* const k = kept(t);
  while (k->count && (u64)k->copies[k->first].group + pending < k->groups) copy_finish(b, t);
}
SI void copy_wait_all(EmuBlock* b, EmuThread* t) {
  while (kept(t)->count) copy_finish(b, t);
}
