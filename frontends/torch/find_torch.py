"""Prints, one KEY=VALUE a line, what CMake needs to build the recorder for this interpreter's torch.

Run by CMakeLists.txt with CRUCIBLE_PYTHON. It imports torch once, at configure time.
"""

import os
import sys
import sysconfig

try:
    import torch
except ImportError as error:
    sys.exit(f"{sys.executable} cannot import torch: {error}")

root = os.path.dirname(torch.__file__)
include = sysconfig.get_path("include")
if not os.path.exists(os.path.join(include, "Python.h")):
    sys.exit(f"{include}/Python.h is missing: install the development files of Python {sys.version.split()[0]}")
print(f"version={torch.__version__}")
print(f"cxx11_abi={int(torch._C._GLIBCXX_USE_CXX11_ABI)}")
print(f"has_c10d={int(torch.distributed.is_available())}")
print(f"torch_include={root}/include;{root}/include/torch/csrc/api/include")
print(f"torch_lib={root}/lib")
print(f"python_include={include}")
print(f"python_version={sys.version_info.major}.{sys.version_info.minor}")
print(f"suffix={sysconfig.get_config_var('EXT_SUFFIX')}")
