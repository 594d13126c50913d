"""The devices that recordings can be replayed on here: real ones, and those of the emulated drivers that the build made.

`devices(crucible)` maps a column's name to what `crucible replay` is told: a list of options. Emulated devices' names end with "(emulated)".
"""

import glob
import importlib.util
import os
import pathlib


def nvrtc_folder():
    """Of the packages that torch brings, wherever torch lies; "" when there is none."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        return ""
    found = glob.glob(os.path.dirname(os.path.dirname(torch.origin)) + "/nvidia/*/lib/libnvrtc.so.*")
    return os.path.dirname(found[0]) if found else ""


def devices(crucible):
    """In the order of a table. What the build or the machine does not have is left out."""
    emulators = pathlib.Path(crucible).resolve().parent / "emulators"
    found = {"cpu": ["--backend", "cpu"], "opencl: PoCL": ["--backend", "opencl"]}
    intel_opencl = os.environ.get("CRUCIBLE_INTEL_OPENCL", "")
    if intel_opencl:
        found["opencl: Intel"] = ["--backend", "opencl", "--set", f"backend.opencl.library={intel_opencl}"]
    nvrtc = os.environ.get("CRUCIBLE_NVRTC") or nvrtc_folder()
    if (emulators / "nvidia/libcuda.so.1").exists() and nvrtc:
        found["nvidia (emulated)"] = ["--backend", "nvidia", "--set", f"backend.nvidia.library={emulators}/nvidia/libcuda.so.1",
                                      "--set", f"backend.nvidia.nvrtc={nvrtc}"]
    if (emulators / "amd/libamdhip64.so.6").exists():
        found["amd (emulated)"] = ["--backend", "amd", "--set", f"backend.amd.library={emulators}/amd/libamdhip64.so.6",
                                   "--set", f"backend.amd.hiprtc={emulators}/amd/libhiprtc.so.6"]
    if (emulators / "intel/libze_emulated.so").exists() and intel_opencl:
        found["intel (emulated)"] = ["--backend", "intel", "--set", f"backend.intel.library={emulators}/intel/libze_emulated.so"]
    return found
