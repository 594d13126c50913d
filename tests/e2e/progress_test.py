"""What a terminal shows while a command takes long.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import os
import pty
import subprocess
import tempfile
import unittest

import e2e_test
from e2e_test import CRUCIBLE


class Progress(e2e_test.Folder):
    def replay(self, is_terminal):
        """Standard error of a replay whose compiler takes some seconds."""
        compiler = self.folder / "slow-clang"
        compiler.write_text('#!/bin/sh\nsleep 3\nexec clang-19 "$@"\n')
        compiler.chmod(0o755)
        environment = {**os.environ, "CRUCIBLE_STORE_DIR": tempfile.mkdtemp(dir=self.folder)}
        command = [CRUCIBLE, "replay", self.trace, "--json", "--set", f"backend.cpu.compiler={compiler}"]
        reader, writer = pty.openpty() if is_terminal else os.pipe()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer, env=environment) as process:
            os.close(writer)
            heard = b""
            while True:
                try:
                    part = os.read(reader, 4096)
                except OSError:  # a terminal whose other end is closed
                    break
                if not part:
                    break
                heard += part
            self.assertEqual(process.wait(), 0, heard)
        os.close(reader)
        return heard.decode()

    def test_a_pass_that_takes_long_is_named_with_its_seconds_and_goes_again(self):
        heard = self.replay(is_terminal=True)
        self.assertIn("\r\033[Kcompiling kernels, 1 s", heard)
        self.assertIn("compiling kernels, 2 s", heard)
        self.assertTrue(heard.rstrip("\n").endswith("\r\033[K"), repr(heard))

    def test_elsewhere_nothing_is_shown(self):
        self.assertNotIn("compiling", self.replay(is_terminal=False))


if __name__ == "__main__":
    unittest.main()
