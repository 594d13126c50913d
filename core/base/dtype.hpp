// Element types of tensors, DType: the kernel IR's, which plugins share with the host.
#pragma once

#include "plugins/kernel_ir/dtype.hpp"
