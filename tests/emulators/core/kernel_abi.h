/* What a kernel that was translated for the CPU and the grid executor know of each other: plain C11, without system
   state. The skins put this text before the kernels that they compile, and core/grid.cpp includes it. Sizes and order
   are the contract between code made by one process and a cache read by another: change EMU_ABI with them. */
#ifndef CRUCIBLE_EMULATOR_KERNEL_ABI_H
#define CRUCIBLE_EMULATOR_KERNEL_ABI_H

#include <stdint.h>

#define EMU_ABI 4
/* A device address is the host's address with this bit: not canonical on x86-64, so a host that follows it faults. */
#define EMU_TAG (1ull << 62)

/* What a step of a thread ended with. */
enum { EMU_DONE = 0, EMU_BARRIER = 1, EMU_WARP = 2, EMU_TRAP = 3 };

typedef struct EmuThread {
  uint32_t x, y, z;
  uint32_t linear;     /* x + nx * (y + ny * z); its lane is linear % warp */
  uint32_t pc;         /* of a resumable function: where to go on; 0 at the start */
  uint32_t wait_id;    /* EMU_BARRIER: which one (0 to 15). EMU_WARP with mask 0: the place in the text */
  uint32_t wait_count; /* EMU_BARRIER: threads that meet; 0: all of the block that have not ended */
  uint32_t place;      /* EMU_BARRIER: the place in the text; all who meet have the same one, 0 everywhere if unknown */
  uint32_t in_meeting; /* set by the executor: this lane was released by the last meeting of its warp */
  uint64_t mask;       /* EMU_WARP: lanes that have to be there; 0: those that are at the same place */
  uint64_t value;      /* EMU_WARP: what this lane brings; read by others as `offered` */
  uint64_t* save;      /* of a resumable function: save_words words */
  char* local;         /* local_bytes bytes, aligned to 16 */
} EmuThread;

/* What is done to memory. An atomic operation, and an access that is ordered, has EMU_ATOMIC beside the others. */
enum { EMU_READ = 1, EMU_WRITE = 2, EMU_ATOMIC = 4 };
/* What operations are counted for: the format that an operation rounds to, and of matrix units that of the factors. */
enum {
  EMU_F64 = 0,
  EMU_F32 = 1,
  EMU_F16 = 2,
  EMU_BF16 = 3,
  EMU_MATRIX_F64 = 4,
  EMU_MATRIX_TF32 = 5,
  EMU_MATRIX_F16 = 6,
  EMU_MATRIX_BF16 = 7,
  EMU_UNITS = 8
};

/* Who watches a block, for code that was written to tell of itself; other code never looks here. */
typedef struct EmuObserver {
  /* Before an access of `thread` to bytes at a host's address. */
  void (*access)(struct EmuObserver*, const EmuThread* thread, uint64_t address, uint32_t bytes, uint32_t kind);
  uint64_t operations[EMU_UNITS]; /* a fused multiply-add counts two */
  /* What a lane does, one word after the other: see ptx/warp_program.hpp. Of code that was written for it alone. */
  void (*tell)(struct EmuObserver*, const EmuThread* thread, uint64_t word);
} EmuObserver;

typedef struct EmuBlock {
  uint32_t nx, ny, nz; /* threads */
  uint32_t gx, gy, gz; /* blocks */
  uint32_t bx, by, bz; /* this block */
  uint32_t thread_count, warp, dynamic_shared_bytes;
  char* shared;           /* static part first, then the dynamic one */
  const char* arguments;  /* packed by the skin */
  EmuThread* threads;
  const uint64_t* offered; /* by linear thread: `value` as it was at the last meeting of its warp */
  const uint8_t* present;  /* by linear thread: 1 when it was in that meeting */
  uint32_t trapped;        /* a `block` function sets it to stop the grid */
  /* For fibers: gives the processor away until the meeting has taken place. Null in kernels that never meet. */
  void (*wait)(struct EmuBlock*, EmuThread*, int kind);
  EmuObserver* observer; /* null unless the kernel is one that tells of itself */
} EmuBlock;

#endif
