"""Which of a command's processes is recorded, and under which name: launchers, ranks, children."""

import os
import sys
import traceback

# Programs that only start others: they are not recorded themselves, and what they start sees our environment.
LAUNCHER_SCRIPTS = ("torchrun", "accelerate", "deepspeed")
LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")


def is_launcher(arguments):
    """Whether an interpreter started with these arguments (sys.orig_argv) starts ranks."""
    words = iter(arguments[1:])
    for word in words:
        if word == "-m":
            return next(words, "") in LAUNCHER_MODULES
        if word in ("-X", "-W"):
            next(words, None)
        elif word == "-c":
            return False
        elif not word.startswith("-"):
            return os.path.basename(word) in LAUNCHER_SCRIPTS
    return False


def rank_and_world(torch=None):
    """(rank, number of ranks) of this process, or (None, 1): from the process group, else from the environment."""
    distributed = sys.modules.get("torch.distributed") if torch is not None else None
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        if distributed.get_world_size() > 1:
            return distributed.get_rank(), distributed.get_world_size()
        return None, 1
    try:
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None, 1
    return (rank, world) if world > 1 else (None, 1)


def name_of_part(output, part):
    """"step.crtrace", "rank0" -> "step.rank0.crtrace"."""
    stem, extension = os.path.splitext(output)
    return f"{stem}.{part}{extension}"


def what_it_raised():
    """The exception that ends this process, in words; "" when none does."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return ""
    where = traceback.extract_tb(getattr(sys, "last_traceback", None))
    line = f" at {os.path.basename(where[-1].filename)}:{where[-1].lineno}" if where else ""
    said = f": {error}" if str(error) else ""
    return f"the program ended with {type(error).__name__}{said}{line}"
