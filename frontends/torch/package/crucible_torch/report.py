"""What the recorded process tells `crucible record`, through one small JSON file that the command reads at the end.

The command's side is frontends/cli/cmd_record.cpp. Keys: "state" is one of STATES; "message" goes with refused and failed;
"steps" and "ended" (the exit handlers ran) with waiting; the summary of the file with written.
"""

import json
import os

# python: the interpreter started; waiting: torch was imported, the warm-up runs; recording: iterations are recorded;
# written: the file is there; failed: it could not be written; refused: this torch or this program cannot be recorded.
STATES = ("python", "waiting", "recording", "written", "failed", "refused")


class Report:
    """One process's right to tell, and its telling."""

    def __init__(self, path):
        self.path = path

    def claim(self):
        """True for the first process that asks: a command may start several interpreters, one is recorded."""
        try:
            os.close(os.open(self.path + ".claim", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError:
            return False
        return True

    def tell(self, state, **details):
        assert state in STATES
        partial = f"{self.path}.{os.getpid()}"
        try:
            with open(partial, "w", encoding="utf-8") as out:
                json.dump({"state": state, **details}, out)
            os.replace(partial, self.path)
        except OSError:
            pass  # the command has gone away; the program goes on
