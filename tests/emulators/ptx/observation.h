/* Stands before texts that tell of themselves alone, behind memory.h: what they say to block->observer
 * (core/kernel_abi.h). */
#pragma once
SI char* observe(EmuBlock* b, EmuThread* t, char* p, u32 bytes, u32 kind) {
  b->observer->access(b->observer, t, (u64)(uintptr_t)p, bytes, kind);
  return p;
}
SI void tell(EmuBlock* b, EmuThread* t, u64 word) { b->observer->tell(b->observer, t, word); }
