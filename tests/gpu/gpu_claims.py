"""The part `claims` of `ci/gpu`: what cuDNN and cuBLASLt take on this device, beside what the real cuDNN answers where
there is no device (tests/emulators/nvidia/cudnn_deviceless.cpp), and products whose algorithm was measured."""

import glob
import importlib.util
import os
import pathlib
import re
import statistics

from gpu_machine import Failed, over

DEVICELESS = ("sm_80", "sm_90", "sm_100")
KINDS = {"products": "matmul", "convolutions": "conv2d", "attentions": "attention"}
MEASURED = ("false", "true")


def claims_part(machine):
    """What libraries take of each recording, on the device and by the real cuDNN without one; with measure_products on
    and off in turns."""
    return over(machine, machine.cases(), lambda *case: work(machine, *case), "answers")


def work(machine, example, precision):
    recording = machine.recording(example, precision, machine.train)
    answers, problems = [], []
    for who, asked in askers(machine).items():
        row = {"example": example, "precision": precision, "who": who, "reason": ""}
        if isinstance(asked, str):
            answers.append(row | {"reason": asked})
            continue
        options, environment = asked
        log = machine.folder / f"cudnn.{example}.{precision}.{who.split()[0]}.log"
        log.unlink(missing_ok=True)
        listed = machine.json(machine.crucible, "kernels", recording, *options, "--tune", "off",
                              **environment, CUDNN_LOGLEVEL_DBG="3", CUDNN_LOGDEST_DBG=str(log))
        answers.append(row | taken(listed["kernels"]) | {"engines": engines_of(log)})
        log.unlink(missing_ok=True)  # megabytes
    for row in answers[1:]:
        row.pop("products", None)  # nobody asks cuBLASLt there
    here = [row for row in answers if row["who"] == "this device"]
    beside = [row for row in answers if row["who"].startswith("sm_") and "convolutions" in row]
    for kind in ("convolutions", "attentions"):
        if here and kind in here[0] and beside and here[0][kind][0] < min(row[kind][0] for row in beside):
            problems.append(f"{example} {precision}: this device takes {here[0][kind][0]} {kind}, and without a device "
                            f"cuDNN takes {min(row[kind][0] for row in beside)}")
    return answers + measured_products(machine, example, precision, recording), problems


def askers(machine):
    """{who answers: (options, environment) or why nobody asks}"""
    found = {"this device": "unmeasured: a rehearsal" if machine.rehearses else (machine.columns["nvidia"], {})}
    deviceless = machine.build / "emulators/nvidia/deviceless/libcudnn.so.9"
    driver = machine.build / "emulators/nvidia/libcuda.so.1"
    real = real_cudnn()
    for architecture in DEVICELESS:
        who = f"{architecture} without a device"
        if not deviceless.exists() or not driver.exists() or not real:
            found[who] = "unmeasured: " + ("there is no real cuDNN" if not real else
                                           "this build has no deviceless cuDNN (crucible_deviceless_cudnn)")
            continue
        options = ["--backend", "nvidia"]
        for name, value in {"library": driver, "cudnn": deviceless, "dnn": "cudnn"}.items():
            options += ["--set", f"backend.nvidia.{name}={value}"]
        options += [word for setting in machine.settings("nvidia") if ".nvrtc=" in setting
                    for word in ("--set", setting)]
        found[who] = (options, {"CRUCIBLE_REAL_CUDNN": real, "CRUCIBLE_DEVICELESS": architecture,
                                "CRUCIBLE_EMU_MEMORY_MIB": "81920"})
    return found


def real_cudnn():
    """As the deviceless test finds it: CRUCIBLE_REAL_CUDNN, or that of torch's packages; "" where there is none."""
    named = os.environ.get("CRUCIBLE_REAL_CUDNN", "")
    torch = importlib.util.find_spec("torch")
    if named or torch is None:
        return named
    packages = pathlib.Path(torch.origin).parent.parent
    return next(iter(sorted(glob.glob(f"{packages}/nvidia/cudnn/lib/libcudnn.so.9"))), "")


def taken(steps):
    """{"convolutions": [taken, of]}; of attentions and products that are generated nothing tells how many there are
    where they are fused, so that of them those are counted that have a step of their own."""
    found = {}
    for kind, word in KINDS.items():
        by_library = sum(step["kind"] == "library" and step["name"].startswith(word) for step in steps)
        generated = sum(op.partition("*")[0].startswith(word) for step in steps if step["kind"] == "launch"
                        for op in step["ops"])
        found[kind] = [by_library, by_library + generated]
    return found


def engines_of(log):
    """{"forward: engine 45, tensor cores": plans} of cuDNN's own log, each plan that could be built once; {} where it
    says nothing that we know."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return {}
    found, plan = {}, None
    for call in re.split(r"^(?=[A-Z]! CuDNN )", text, flags=re.MULTILINE):
        if "function cudnnBackendFinalize() called" not in call:
            continue
        status = re.search(r"status: type=cudnnStatus_t; val=(\w+)", call)
        if not status:
            plan = plan_in_words(call)
        else:
            if plan and status[1] == "CUDNN_STATUS_SUCCESS":
                found[plan] = found.get(plan, 0) + 1
            plan = None
    return dict(sorted(found.items()))


def plan_in_words(call):
    """Of the text of a call that finalizes a plan; None of another's."""
    engine = re.search(r"engine_id: type=int; val=(\d+)", call)
    if "descriptor: type=CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR" not in call or not engine:
        return None
    operation = re.search(r"CUDNN_BACKEND_OPERATION_CONVOLUTION_(\w+?)_DESCRIPTOR", call)
    what = operation[1].lower().replace("_", " ") if operation else "attention" if "OPERATION_MATMUL" in call else "?"
    units = ", tensor cores" if "CUDNN_NUMERICAL_NOTE_TENSOR_CORE: type=bool; val=true" in call else ""
    return f"{what}: engine {engine[1]}{units}"


def measured_products(machine, example, precision, recording):
    """A row for measure_products off and on: replays in turns."""
    if machine.rehearses:
        return [{"example": example, "precision": precision, "measure_products": value, "median_ns": None,
                 "rounds_ns": [], "reason": "unmeasured: a rehearsal"} for value in MEASURED]
    times = {value: [] for value in MEASURED}
    for _ in range(machine.rounds):
        for value in MEASURED:
            found = machine.replay(recording, "--set", f"backend.nvidia.measure_products={value}", "--tune", "off",
                                   "--verify", "--sensitivity", 40, "--repeat", 3)
            times[value].append(found["time_ns_per_iteration"])
    return [{"example": example, "precision": precision, "measure_products": value, "rounds_ns": of,
             "median_ns": statistics.median(of), "reason": ""} for value, of in times.items()]
