// The same for the product.
#pragma once

#include <fmt/format.h>

#include "standard.hpp"
