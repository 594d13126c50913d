"""The line of crucible.accelerate(progress=True), in a terminal that is played here: what the program writes stands
above it, whole, and nothing is left of it when the program has ended."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import textwrap
import time
import unittest

from accelerated import AccelerateTest

ROWS, COLUMNS = 12, 60
SCRIPT = """
    import sys, time
    import crucible, torch
    from accelerated import batch, train_step

    made = train_step()
    step = crucible.accelerate(made.step, progress=True)
    sys.stdout.write("before, without an end; ")
    for call in range(24):
        step(*batch())
        print(f"call {call} of the program", flush=True)
        if call == 3:
            step.wait(100)
    sys.stderr.write("the last words")
    sys.stderr.flush()
"""


class Terminal:
    """As much of one as is needed: text, what moves the cursor, a region that scrolls."""

    def __init__(self):
        self.rows = [[" "] * COLUMNS for _ in range(ROWS)]
        self.scrolled = []  # rows that went out at the top
        self.row = self.column = 0
        self.bottom = ROWS
        self.saved = (0, 0)
        self.last_rows = []  # what the last row has shown, in order

    def shown(self):
        return ["".join(row).rstrip() for row in self.rows]

    def down(self):
        if self.row == self.bottom - 1:
            self.scrolled.append("".join(self.rows.pop(0)).rstrip())
            self.rows.insert(self.bottom - 1, [" "] * COLUMNS)
        elif self.row < ROWS - 1:
            self.row += 1

    def write(self, text):
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\x1b[78D]|[\s\S]", text):
            if part in ("\x1b7", "\x1b8"):
                if part == "\x1b7":
                    self.saved = self.row, self.column
                else:
                    self.row, self.column = self.saved
                    self.last_rows.append(self.shown()[-1])
            elif part == "\x1bD":
                self.down()
            elif part.startswith("\x1b["):
                self.control([int(number or 0) for number in part[2:-1].split(";")], part[-1])
            elif part == "\n":
                self.down()
            elif part == "\r":
                self.column = 0
            else:
                self.rows[self.row][self.column] = part
                self.column = min(self.column + 1, COLUMNS - 1)

    def control(self, numbers, what):
        if what == "r":
            self.bottom = numbers[1] if len(numbers) > 1 else ROWS
            self.row = self.column = 0
        elif what == "H":
            self.row, self.column = numbers[0] - 1, numbers[1] - 1
        elif what == "K":
            self.rows[self.row] = [" "] * COLUMNS
        elif what == "A":
            self.row = max(self.row - 1, 0)
        else:
            raise AssertionError(f"an unknown sequence: {numbers} {what}")


def run(script, stderr=None, rows=ROWS, term="xterm"):
    """(what the terminal got, what came out of `stderr` where that is a pipe, the exit code)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": term}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdin=slave, stdout=slave,
                               stderr=slave if stderr is None else stderr, env=environment, close_fds=True)
    os.close(slave)
    got, end = b"", time.monotonic() + 240
    while time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            got += part
    errors = process.stderr.read() if process.stderr is not None else b""
    code = process.wait(30)
    os.close(master)
    if process.stderr is not None:
        process.stderr.close()
    return got.decode(), errors.decode(), code


class TheLine(AccelerateTest):
    def test_the_program_is_above_it_and_whole(self):
        text, _, code = run(SCRIPT)
        self.assertEqual(code, 0, text)
        terminal = Terminal()
        terminal.write(text)
        shown = [*terminal.scrolled, *terminal.shown()]
        expected = ["before, without an end; call 0 of the program",
                    *[f"call {call} of the program" for call in range(1, 24)], "the last words"]
        self.assertEqual([row for row in shown if row], expected)
        self.assertEqual(terminal.bottom, ROWS, "the region that scrolls stays")
        said = [row for row in terminal.last_rows if row.startswith("step: ")]
        for words in ("step: observing 1/4", "step: observing 3/4", "step: compiling ", "step: compiled since call "):
            self.assertTrue(any(row.startswith(words) for row in said), f"{words!r} is not among {said}")
        self.assertRegex(said[-1], r"^step: compiled since call \d+, [0-9.]+x, \d checks$")
        for row in said:
            self.assertRegex(row, r"^step: (not called yet|observing \d/4|compiling.*|compiled.*)$")

    def test_nothing_is_written_without_a_terminal(self):
        text, errors, code = run(SCRIPT, subprocess.PIPE)
        self.assertEqual(code, 0, text)
        self.assertEqual(errors, "the last words")
        self.assertNotIn("\x1b", text)

    def test_nothing_is_written_where_there_is_no_room_or_no_cursor(self):
        for options in ({"rows": 3}, {"term": "dumb"}):
            text, _, code = run(SCRIPT, **options)
            self.assertEqual(code, 0, text)
            self.assertNotIn("\x1b", text)

    def test_nothing_is_written_unasked(self):
        text, _, code = run(SCRIPT.replace(", progress=True", ""))
        self.assertEqual(code, 0, text)
        self.assertNotIn("\x1b", text)

    def test_why_a_function_is_eager_fits_into_the_row(self):
        text, _, code = run("""
            import crucible, torch

            @crucible.accelerate(progress=True)
            def talks(x):
                print("I talk")
                return x + 1

            for _ in range(4):
                talks(torch.ones(3))
        """)
        self.assertEqual(code, 0, text)
        terminal = Terminal()
        terminal.write(text)
        self.assertEqual([row for row in [*terminal.scrolled, *terminal.shown()] if row], ["I talk"] * 4)
        self.assertTrue(terminal.last_rows[-2].startswith("talks: eager: "), terminal.last_rows)
        self.assertLess(max(map(len, terminal.last_rows)), COLUMNS)

    def test_a_forked_child_writes_nothing(self):
        text, _, code = run(SCRIPT + """
    import os
    child = os.fork()
    if child == 0:
        sys.stderr.write("|")
        for _ in range(4):
            step(*batch())
        sys.stderr.write("|")
        sys.exit(0)
    os.waitpid(child, 0)
""")
        self.assertEqual(code, 0, text)
        self.assertIn("||", text)

    def test_terminals_that_change_their_size(self):
        text, _, code = run("""
            import fcntl, struct, sys, termios
            import crucible, torch
            from crucible_torch.accelerate.progress import line

            line.show("one")
            fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
            line.show("two")
        """)
        self.assertEqual(code, 0, text)
        self.assertIn("\x1b[1;11r", text)
        self.assertIn("\x1b[1;9r", text)
        self.assertIn("\x1b[10;1H\x1b[2Ktwo", text)
        self.assertTrue(text.endswith("\x1b7\x1b[r\x1b[10;1H\x1b[2K\x1b8"), text)


if __name__ == "__main__":
    unittest.main()
