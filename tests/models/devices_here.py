"""The devices that recordings can be replayed on here: real ones, and those of the emulated drivers that the build
made.

`devices(crucible)` maps a column's name to what `crucible replay` is told: a list of options. Emulated devices' names
end with "(emulated)".
"""

import glob
import importlib.util
import json
import os
import pathlib
import subprocess


def nvrtc_library():
    """CRUCIBLE_NVRTC, or that of the packages which torch brings, wherever torch lies; "" when there is none."""
    folder = os.environ.get("CRUCIBLE_NVRTC", "")
    if os.path.isfile(folder):
        return folder
    torch = importlib.util.find_spec("torch")
    if not folder and torch is None:
        return ""
    pattern = folder or os.path.dirname(os.path.dirname(torch.origin)) + "/nvidia/*/lib"
    found = sorted(glob.glob(pattern + "/libnvrtc.so.*"))
    return found[0] if found else ""


def devices(crucible):
    """In the order of a table. What the build or the machine does not have is left out."""
    emulators = pathlib.Path(crucible).resolve().parent / "emulators"
    found = {"cpu": ["--backend", "cpu"], "opencl: PoCL": ["--backend", "opencl"]}
    intel_opencl = os.environ.get("CRUCIBLE_INTEL_OPENCL", "")
    if intel_opencl:
        found["opencl: Intel"] = ["--backend", "opencl", "--set", f"backend.opencl.library={intel_opencl}"]
    nvrtc = nvrtc_library()
    if (emulators / "nvidia/libcuda.so.1").exists() and nvrtc:
        found["nvidia (emulated)"] = [
            "--backend", "nvidia", "--set", f"backend.nvidia.library={emulators}/nvidia/libcuda.so.1", "--set",
            f"backend.nvidia.nvrtc={nvrtc}"
        ]
    if (emulators / "amd/libamdhip64.so.6").exists():
        found["amd (emulated)"] = ["--backend", "amd", "--set", f"backend.amd.library={emulators}/amd/libamdhip64.so.6",
                                   "--set", f"backend.amd.hiprtc={emulators}/amd/libhiprtc.so.6"]
    if (emulators / "intel/libze_emulated.so").exists() and intel_opencl:
        found["intel (emulated)"] = [
            "--backend", "intel", "--set", f"backend.intel.library={emulators}/intel/libze_emulated.so"
        ]
    return found


NO_PROGRAMS = ("null", "torch")  # one computes nothing, the other runs opaque ops alone


def all_devices(crucible):
    """The same, and every device more of the plugins that the command finds, somebody else's too. A real device of a
    vendor stands in for the emulated one: a plugin has one driver in a process."""
    found = devices(crucible)
    listed = subprocess.run([crucible, "devices", "--json"], capture_output=True, text=True, check=False)
    for device in json.loads(listed.stdout)["devices"] if listed.returncode == 0 else []:
        plugin = device["backend"]
        if plugin in NO_PROGRAMS or plugin in ("cpu", "opencl"):  # these are above
            continue
        if not device["emulated"]:
            found.pop(f"{plugin} (emulated)", None)
        elif f"{plugin} (emulated)" in found:
            continue
        found[device["id"] + (" (emulated)" if device["emulated"] else "")] = ["--backend", device["id"]]
    return found
