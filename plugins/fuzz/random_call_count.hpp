// Generated from abi.toml by gen/generate.py.
#pragma once

inline constexpr int kRandomCalls = 45;  // entries of all interface tables
