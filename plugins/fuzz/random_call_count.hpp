// Generated from abi.toml by gen/generate.py.
#pragma once

inline constexpr int kRandomCalls = 43;  // entries of all interface tables
