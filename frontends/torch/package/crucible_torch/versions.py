"""Whether the recorder library fits the program's torch and Python, and the command that makes it fit."""

import sys

from crucible_torch import build_info


def mismatch(torch):
    """Why this library cannot record this interpreter, in one sentence with the fix; "" when it can."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    fix = (f"build it for {sys.executable}: cmake {build_info.BUILD_FOLDER} -DCRUCIBLE_PYTHON={sys.executable} "
           f"&& cmake --build {build_info.BUILD_FOLDER}")
    if python != build_info.PYTHON_VERSION:
        return f"the recorder was built for Python {build_info.PYTHON_VERSION}, the program runs Python {python}; {fix}"
    if torch.__version__ != build_info.TORCH_VERSION:
        return (f"the recorder was built for torch {build_info.TORCH_VERSION}, the program runs torch "
                f"{torch.__version__}; {fix}")
    return ""
