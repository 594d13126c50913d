// Generated from abi.toml by gen/generate.py.
#pragma once

inline constexpr int kRandomCalls = 48;  // entries of all interface tables
