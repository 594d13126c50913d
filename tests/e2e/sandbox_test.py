"""The sandbox as a user meets it: whose files it is for, that what is right stays right in it, and what wrong things
end in.

Environment: as e2e_test.py.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

import e2e_test
from e2e_test import crucible

# A compiler that tries what the file wants which took it over, writes down what it could, and compiles.
HOSTILE = """#!{python}
import os, socket, sys
could = []
def attempt(name, work):
    try:
        work()
        could.append(name)
    except OSError:
        pass
attempt("write", lambda: open({victim!r}, "a").write("changed"))
attempt("network", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
attempt("run", lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "true"], os.environ))
attempt("mode", lambda: os.chmod({victim!r}, 0o777))
attempt("signal", lambda: os.kill({test}, 0))
source = next((a for a in sys.argv if a.endswith(".c")), None)
if source:
    text = open(source).read()
    open(source, "w").write(text + "\\n/* could: " + " ".join(could) + " */\\n")
    sys.stderr.write("could: " + " ".join(could) + "\\n")
    if {fails}:
        sys.exit(1)
os.execvp("clang-19", ["clang-19", *sys.argv[1:]])
"""


class Sandbox(e2e_test.Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = crucible("replay", cls.trace, "--sandbox", "--backend", "reference")
        if "note: this system has no" in done.stderr:
            raise unittest.SkipTest(done.stderr.strip())

    def setUp(self):
        self.environment = {
            **os.environ, "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "home-cache"), "CRUCIBLE_KERNEL_TRIAL": "false"
        }
        self.environment.pop("CRUCIBLE_SANDBOX", None)
        self.store = self.folder / f"{self._testMethodName}-store"
        self.environment["CRUCIBLE_STORE_DIR"] = str(self.store)

    def confined(self):
        """True when the last command kept its kernels behind the wall."""
        return (self.store / "confined").is_dir()

    def replay(self, *arguments, **options):
        return crucible("replay", *arguments, env=self.environment, **options)

    def hostile(self, fails=False):
        victim = self.folder / f"{self._testMethodName}.victim"
        victim.write_text("as it was")
        compiler = self.folder / f"{self._testMethodName}.compiler"
        compiler.write_text(
            HOSTILE.format(python=os.path.realpath(sys.executable), victim=str(victim), test=os.getpid(), fails=fails))
        compiler.chmod(0o755)
        return victim, compiler

    def test_own_recordings_are_free_and_strangers_are_not(self):
        own = self.folder / "own.crtrace"
        done = crucible("record", "-o", own, "--iterations", "2", "--", sys.executable, self.script("""
            import torch
            w = torch.nn.Linear(4, 2)
            o = torch.optim.SGD(w.parameters(), 0.1)
            for _ in range(6):
                o.zero_grad(); w(torch.ones(3, 4)).sum().backward(); o.step()
            """), env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        plain = self.replay(own, "--verify", "--json")
        self.assertEqual((plain.returncode, self.confined()), (0, False), plain.stderr)
        copy = self.folder / "copy.crtrace"
        shutil.copy(own, copy)
        done = self.replay(copy, "--verify", "--json")
        self.assertEqual((done.returncode, self.confined()), (0, True), done.stderr)
        self.assertEqual(json.loads(done.stdout)["result_sha256"], json.loads(plain.stdout)["result_sha256"])
        for file, made in ((own, False), (copy, True)):
            trimmed = self.folder / f"trimmed-{made}.crtrace"
            self.assertEqual(
                crucible("trace", "trim", file, "--iterations", "0", "-o", trimmed, env=self.environment).returncode, 0)
            shutil.rmtree(self.store)
            self.assertEqual((self.replay(trimmed).returncode, self.confined()), (0, made),
                             "what is made of a stranger's is a stranger's")
        # What was shut in came first: the store of others is made around its folder.
        shutil.rmtree(self.store)
        self.assertEqual((self.replay(own, "--sandbox").returncode, self.confined()), (0, True))
        self.assertNotIn("nothing is kept", self.replay(own).stderr)
        self.assertTrue((self.store / "format").exists())
        shutil.rmtree(self.store)
        self.assertEqual((self.replay(copy, "--no-sandbox").returncode, self.confined()), (0, False))
        self.assertEqual((self.replay(own, "--sandbox").returncode, self.confined()), (0, True))

    def test_every_way_to_run_works_in_it(self):
        runs = [("--verify",), ("--numerics", "strict", "--verify"), ("--backend", "reference", "--verify"),
                ("--no-fuse",), ("--profile",), ("--repeat", "2", "--json"), ("--memory-budget", "8MiB"),
                ("--receipt", self.folder / "receipt.json"), ("--receipt", "/dev/stdout"),
                ("--profile-trace", self.folder / "profile.json"), ("--tune", "measure"), ("--threads", "1")]
        for options in runs:
            with self.subTest(options=options):
                free, shut = self.replay(self.trace, "--no-sandbox",
                                         *options), self.replay(self.trace, "--sandbox", *options)
                self.assertEqual(shut.returncode, free.returncode, shut.stdout + shut.stderr)
                self.assertEqual(shut.returncode, 0, shut.stdout + shut.stderr)
                self.assertNotIn("note: this system has no", shut.stderr)
                self.assertNotIn("not kept", shut.stderr)
        self.assertTrue((self.folder / "receipt.json").exists() and (self.folder / "profile.json").exists())
        self.assertEqual(os.listdir(self.store / "confined") != [], True)
        done = crucible("compare", self.trace, "--backends", "cpu,reference", "--sandbox", "--capsule",
                        self.folder / "none.capsule", env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.folder / "home-cache/crucible/confined").is_dir())
        self.assertEqual(list((self.folder / "home-cache/crucible/confined").glob("tmp-*")), [],
                         "temporary folders are removed")

    def test_what_took_it_over_can_do_nothing(self):
        for fails in (False, True):
            victim, compiler = self.hostile(fails)
            options = ("--set", f"backend.cpu.compiler={compiler}")
            free = self.replay(self.trace, "--no-sandbox", *options)
            self.assertEqual(free.returncode, 4 if fails else 0, free.stderr)
            if fails:
                self.assertIn("could: write network run mode signal", free.stderr)
            victim.chmod(0o644)
            victim.write_text("as it was")
            shut = self.replay(self.trace, "--sandbox", *options)
            self.assertEqual(shut.returncode, 4 if fails else 0, shut.stderr)
            if fails:
                self.assertIn("could: \n", shut.stderr)
            self.assertEqual((victim.read_text(), oct(victim.stat().st_mode & 0o777)), ("as it was", "0o644"))

    def test_its_end_is_told(self):
        done = self.replay(self.trace, "--sandbox", "--set", "sandbox.seconds=1", "--repeat", "1000000")
        self.assert_refused(done, 3, "did not end within 1 s in its sandbox", "sandbox.seconds")
        done, large = self.record("""
            import torch
            w = torch.ones(1, requires_grad=True)
            o = torch.optim.SGD([w], 0.1)
            for _ in range(4):
                o.zero_grad(); (torch.ones(160_000_000) * w).sum().backward(); o.step()
            """, "--iterations", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.replay(large, "--sandbox", "--backend", "reference", "--set", "sandbox.memory_bytes=1")
        self.assert_refused(done, 4, "there is not enough memory for this", "sandbox.memory_bytes")
        done = self.replay(self.folder / "absent.crtrace", "--sandbox")
        self.assert_refused(done, 3, "absent.crtrace")
        self.assertEqual(done.stderr.count("crucible: error:"), 1)

    def test_a_folder_may_not_open_it(self):
        place = self.folder / "somebody"
        place.mkdir()
        (place / "crucible.toml").write_text('[sandbox]\nmode = "off"\n')
        copy = place / "theirs.crtrace"
        shutil.copy(self.trace, copy)
        done = self.replay(copy, cwd=place)
        self.assertEqual((done.returncode, self.confined()), (0, True), done.stderr)
        self.assertIn("sandbox.mode", done.stderr)


if __name__ == "__main__":
    unittest.main()
