// Libraries that register ops of their own with libtorch, such as torchvision's.
#pragma once

namespace crucible_torch {

/// Loads what the option `libraries` names, once in the process. A name without a slash is a package beside torch: its
/// _C.so, or where it has none each of its files that is called so (_C.cpython-311-x86_64-linux-gnu.so). Threads: any.
/// Errors: UNAVAILABLE, naming the library, where it was looked for and the linker's words.
void load_libraries();

}  // namespace crucible_torch
