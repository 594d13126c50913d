"""What recorded processes tell `crucible record`, each through one small JSON file that the command reads at the end.

The command's side is frontends/cli/record_report.cpp. Keys: "state" is one of STATES; "process" is the number of the
claim;
"message" goes with refused and failed; "steps" and "ended" (the exit handlers ran) with waiting; the summary of the
file with written. An interpreter that has not imported torch yet leaves {"state": "python"} under the plain name.
"""

import json
import os
from typing import Any, Callable

# python: the interpreter started; waiting: torch was imported, the warm-up runs; recording: iterations are recorded;
# written: the file is there; failed: it could not be written; refused: this torch or this program cannot be recorded.
STATES = ("python", "waiting", "recording", "written", "failed", "refused")
MOST_PROCESSES = 4096


class Report:
    """One process's right to tell, and its telling. `several`: more than one process may be recorded."""

    def __init__(self, path, several=False):
        self._path = path
        self._several = several
        self.process = None

    def claim(self):
        """True for the first process that asks, and for later ones where there may be several."""
        for number in range(MOST_PROCESSES if self._several else 1):
            try:
                os.close(
                    os.open(f"{self._path}.{number}.claim", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            except FileExistsError:
                continue
            except OSError:
                return False
            self.process = number
            return True
        return False

    def give_back(self):
        """Another program in this process may claim in its place. True when that is so."""
        if self.process is None:
            return False
        for end in ("report", "claim"):  # in this order: a claim without a report is somebody's who has not told yet
            try:
                os.unlink(f"{self._path}.{self.process}.{end}")
            except OSError:
                pass
        self.process = None
        return True

    def tell(self, state, **details):
        assert state in STATES
        place = f"{self._path}.{self.process}.report"
        partial = f"{place}.{os.getpid()}"
        try:
            with open(partial, "w", encoding="utf-8") as out:
                json.dump({"state": state, "process": self.process, **details}, out)
            os.replace(partial, place)
        except OSError:
            pass  # the command has gone away; the program goes on


class LocalReport:
    """The same for a recording that the program itself asked for. `written` is called with the summary of the file."""

    process = 0

    def __init__(self, written: Callable[[dict[str, Any]], None]) -> None:
        self._written = written
        self._state = ""
        self._details: dict[str, Any] = {}

    def claim(self):
        return True

    def give_back(self):
        return False  # the block of crucible.record() ends with the program

    def tell(self, state, **details):
        assert state in STATES
        self._state, self._details = state, details
        if state == "written":
            self._written(details)

    def why_nothing(self, config: dict[str, Any]) -> str:
        """In the words of `crucible record`, but for what is an option there and an argument here."""
        details = self._details
        if self._state in ("refused", "failed"):
            return str(details["message"])
        if not details.get("events") and details.get("backward"):
            return (
                "no optimizer step was seen, and what repeats was not found; call crucible.step() at the end of each iteration "
                "(import crucible)")
        if not details.get("events"):
            return "no optimizer step was seen; call crucible.step() at the end of each iteration (import crucible)"
        if details.get("waits_for"):
            return (
                f"an optimizer of the program ({details['waits_for'][0]}) never stepped, so what repeats was not certain after "
                f"{details['steps']} steps; run more steps, or call crucible.step() at the end of each iteration")
        if not details["steps"]:
            return (
                "the optimizers' steps do not repeat in any order; call crucible.step() at the end of each iteration "
                "(import crucible)")
        what = "module calls" if details.get("kind") == "module" else "steps"
        return (f"the program made {details['steps']} {what} and the warm-up takes {config['warmup']}; run at least "
                f"{config['warmup'] + 1} {what}, or lower warmup")
