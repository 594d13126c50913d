// Special registers as C: see emit.hpp.
#include "tests/emulators/ptx/emit.hpp"

namespace crucible::emulators::ptx {

const char* special_register(const std::string& name) {
  static const std::map<std::string, const char*> kSpecial = {
      {"%tid.x", "t->x"},
      {"%tid.y", "t->y"},
      {"%tid.z", "t->z"},
      {"%ntid.x", "b->nx"},
      {"%ntid.y", "b->ny"},
      {"%ntid.z", "b->nz"},
      {"%ctaid.x", "b->bx"},
      {"%ctaid.y", "b->by"},
      {"%ctaid.z", "b->bz"},
      {"%nctaid.x", "b->gx"},
      {"%nctaid.y", "b->gy"},
      {"%nctaid.z", "b->gz"},
      {"%laneid", "(t->linear & 31)"},
      {"%warpid", "(t->linear >> 5)"},
      {"%nwarpid", "((b->thread_count + 31) >> 5)"},
      {"WARP_SZ", "32u"},
      {"%lanemask_eq", "(1u << (t->linear & 31))"},
      {"%lanemask_lt", "below(t->linear & 31)"},
      {"%lanemask_le", "(below(t->linear & 31) | 1u << (t->linear & 31))"},
      {"%lanemask_gt", "~(below(t->linear & 31) | 1u << (t->linear & 31))"},
      {"%lanemask_ge", "~below(t->linear & 31)"},
      {"%smid", "0u"},
      {"%nsmid", "1u"},
      {"%gridid", "0ull"},
      {"%clock", "(u32)clock_now()"},
      {"%clock_hi", "(u32)(clock_now() >> 32)"},
      {"%clock64", "clock_now()"},
      {"%globaltimer", "clock_now()"},
      {"%dynamic_smem_size", "b->dynamic_shared_bytes"},
      {"%total_smem_size", "shared_limit"},
  };
  const auto found = kSpecial.find(name);
  return found == kSpecial.end() ? nullptr : found->second;
}

}  // namespace crucible::emulators::ptx
