// (6) How your compiler's language spells what kernels need: one of the SDK's tables. To change a spelling, change a
// copy: `static const sdk::Dialect mine = [d = sdk::dialect_c()]() mutable { return d.flags = "-O1", d; }();`
#include "device.hpp"

const crucible::sdk::Dialect& acme::dialect() { return crucible::sdk::dialect_of_acme(); }
