"""Configuration as people get it wrong, command by command: exit code and words. python configuration_test.py

Environment: as bugs_test.py. Each case starts in a folder and a home of its own.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from bugs_test import INPUTS, crucible

CRUCIBLE = pathlib.Path(os.environ["CRUCIBLE"]).resolve()

# what crucible.toml holds, exit code of `crucible config`, words of its error
FILES = {
    "two typing mistakes":
        (b'bakend = "cpu"\n[backend.cpu]\nthread = 2\n', 3, ["did you mean 'backend'?", "did you mean 'threads'?"]),
    "text for a number":
        (b'[backend]\nname = "cpu"\n[backend.cpu]\nthreads = "two"\n', 3, ["crucible.toml:4:1", "threads"]),
    "negative": (b"[backend.cpu]\nthreads = -1\n", 3, ["must be an integer from 1 to"]), "too large":
        (b"[backend.cpu]\nthreads = 99999999999999999999\n", 3, ["crucible.toml:2:"]), "backend twice":
            (b'backend = "cpu"\n[backend.cpu]\nthreads = 2\n', 3, ["[backend] name ="]),
    "capital letter": (b'numerics = "Strict"\n', 3, ["did you mean 'strict'?"]), "byte order mark":
        (b'\xef\xbb\xbfnumerics = "strict"\r\n', 0, []), "utf-16":
            ('numerics = "strict"\n'.encode("utf-16"), 3, ["is UTF-16, as its byte order mark says: save it as UTF-8"]),
    "open quote": (b'numerics = "strict\n', 3, ["not TOML"]), "empty": (b"", 0, []), "binary":
        (b"\x00\x01", 3, ["not TOML"]), "table as list": (b"plugins = []\n", 3, ["plugins"]), "list as text":
            (b'[plugins]\nfolders = "build"\n', 3, ["must be a list of paths"]),
}
# environment, arguments of `crucible replay RECORDING --verify`, exit code, words
REPLAYS = {
    "variable empty": ({"CRUCIBLE_BACKEND": ""}, [], 0, ["verified  yes"]),
    "variable of no backend": ({"CRUCIBLE_BACKEND": "CPU"}, [], 4, ["plugin CPU was not found"]), "variable no number":
        ({"CRUCIBLE_THREADS": "abc"}, [], 2, ["CRUCIBLE_THREADS is 'abc': it must be an integer"]), "threads 0":
            ({}, ["--threads", "0"], 2, ["not in range"]), "option misspelt":
                ({}, ["--set", "backend.cpu.thread=2"], 2, ["did you mean 'threads'?"]), "option without value":
                    ({}, ["--set", "numerics"], 2, ["write --set KEY=VALUE"]),
    "said twice": ({}, ["--set", "numerics=fast", "--set", "numerics=strict"], 0, ["verified  yes"]), "device beyond":
        ({}, ["--device", "cpu:7"], 4, ["it has cpu:0"]), "device of another backend":
            ({}, ["--backend", "cpu", "--device",
                  "opencl:0"], 2, ["leave one of them out"]), "device negative": ({}, ["--device",
                                                                                       "cpu:-1"], 4, ["it has cpu:0"]),
    "unknown, fallback": ({}, ["--backend", "cuda", "--fallback", "warn"], 0, ["verified  yes"]), "relative folders":
        ({"XDG_CONFIG_HOME": "conf", "XDG_CACHE_HOME": "cache"}, [], 0, ["verified  yes"]), "cache not writable":
            ({"CRUCIBLE_STORE_DIR": "/proc/nope"}, [], 0, ["verified  yes"]), "compiler missing":
                ({"CRUCIBLE_CLANG": "/nonexistent/clang",
                  "CRUCIBLE_STORE_DIR": "c1"}, [], 4, ["which is not a program"]), "compiler is false":
                      ({"CRUCIBLE_CLANG": "/bin/false",
                        "CRUCIBLE_STORE_DIR": "c2"}, [], 4, ["the compiler does not work"]), "compiler is true":
                            ({"CRUCIBLE_CLANG": "/bin/true",
                              "CRUCIBLE_STORE_DIR": "c3"}, [], 4, ["the compiler does not work"]),
}


class Configuration(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="crucible-configuration-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.trace = cls.folder / "network.crtrace"
        recorded = crucible("record", "-o", cls.trace, "--", sys.executable, INPUTS / "17b_conv_pool1d_linear.py")
        assert recorded.returncode == 0, recorded.stderr

    def run_in(self, name, arguments, environment):
        place = self.folder / name.replace(" ", "_")
        (place / "home").mkdir(parents=True, exist_ok=True)
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("CRUCIBLE", "XDG"))}
        return subprocess.run([CRUCIBLE, *map(str, arguments)], cwd=place, capture_output=True, text=True, timeout=200,
                              env={**keep, "HOME": str(place / "home"), **environment})

    def expect(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)

    def test_files(self):
        for name, (content, code, words) in FILES.items():
            with self.subTest(name):
                (self.folder / name.replace(" ", "_")).mkdir()
                (self.folder / name.replace(" ", "_") / "crucible.toml").write_bytes(content)
                self.expect(self.run_in(name, ["config", "--probe"], {}), code, words)

    def test_what_is_no_file(self):
        for name, make, words in (("folder", lambda path: path.mkdir(),
                                   "is a folder"), ("loop", lambda path: path.symlink_to(path.name), "back to itself"),
                                  ("link", lambda path: path.symlink_to("gone.toml"),
                                   "which is not there"), ("pipe", os.mkfifo, "is neither a file")):
            with self.subTest(name):
                (self.folder / name).mkdir()
                make(self.folder / name / "crucible.toml")
                self.expect(self.run_in(name, ["config"], {}), 3, [words])

    def test_replays(self):
        for name, (environment, arguments, code, words) in REPLAYS.items():
            with self.subTest(name):
                self.expect(self.run_in(name, ["replay", self.trace, "--verify", *arguments], environment), code, words)


if __name__ == "__main__":
    unittest.main()
