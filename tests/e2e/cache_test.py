"""Compiled kernels in the store as a user meets them: cold, warm, shared, cut off, full, read-only, damaged, of another
machine.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import collections
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import e2e_test
import kept_store
from e2e_test import CRUCIBLE, crucible

# Notes which kernels it was given, does what the test wants, then compiles. Its file, and so the cache's keys, stay the
# same whatever the test wants.
COMPILER = """#!/bin/bash
[ "$1" = --version ] && exec clang-19 --version
folder={folder}
for argument; do case $argument in *.c) source=$argument ;; *.so) object=$argument ;; esac; done
kernels=$(grep -o '^void k_[0-9a-f]*' "$source")
echo "compile" $kernels >> $folder/compiled
. $folder/before
exec clang-19 {flags} "$@"
"""
WAIT_FOR_GO = "while [ ! -e $folder/go ]; do sleep 0.05; done\n"
HALF_AND_KILLED = 'head -c 3000 /bin/bash > "$object"; kill -9 $$\n'


def can_mount():
    done = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return done.returncode == 0


class Cache(e2e_test.Folder):
    """Each test has a store of its own, and a compiler that keeps a list of what it compiled."""

    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix=self._testMethodName[5:25], dir=self.folder))
        self.store = self.place / "store"
        self.temporary = self.place / "tmp"
        self.temporary.mkdir()
        self.compiler = self.make_compiler("compiler")
        self.before("")

    def make_compiler(self, name, flags=""):
        path = self.place / name
        path.write_text(COMPILER.format(folder=self.place, flags=flags))
        path.chmod(0o755)
        return path

    def before(self, script):
        """What the compiler does before it compiles."""
        (self.place / "before").write_text(script)

    def command(self, *options, compiler=None, store=None):
        return [
            "replay", self.trace, "--verify", "--json", "--set", f"backend.cpu.compiler={compiler or self.compiler}",
            "--set", f"store.folder={store or self.store}", *options
        ]

    def environment(self):
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def run_it(self, *options, **named):
        return crucible(*self.command(*options, **named), env=self.environment())

    def start(self, *options):
        process = subprocess.Popen([str(CRUCIBLE), *map(str, self.command(*options))], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment(), start_new_session=True)
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process):
        """With its compilers."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    @staticmethod
    def finish(process):
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def read(self, done):
        """The document of a replay that must have succeeded."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["verified"], True)
        return document

    def good(self, *options, **named):
        return self.read(self.run_it(*options, **named))

    def assert_counts(self, document, compiled, from_cache):
        self.assertEqual(
            (document["receipt"]["cache"]["kernels_compiled"], document["receipt"]["cache"]["kernels_from_cache"]),
            (compiled, from_cache))
        self.assertEqual(document["cache"], "miss" if compiled else "hit")

    def starts(self):
        """The kernels that each start of the compiler was given; trials without a kernel are left out."""
        path = self.place / "compiled"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            names for names in ([word for word in line.split() if word.startswith("k_")] for line in lines) if names
        ]

    def assert_each_compiled_once(self, document):
        times = collections.Counter(name for names in self.starts() for name in names)
        self.assertEqual(set(times.values()), {1}, times)
        self.assertEqual(len(times), document["kernels"])

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.02)

    def kernels(self):
        """The entries of compiled kernels, as paths."""
        if not self.store.exists():
            return []
        entries = kept_store.entries(self.store, "kernel")
        return sorted(kept_store.file_of(self.store, entry["key"]) for entry in entries)

    def objects(self):
        """The blobs: nothing else of a replay on the CPU has any."""
        return kept_store.files_in(self.store / "cas")

    def files(self):
        return {path: path.read_bytes() for room in ("ac", "cas") for path in kept_store.files_in(self.store / room)}

    def assert_clean(self):
        """Nothing is left of any work, and the store is sound."""
        self.assertEqual(os.listdir(self.temporary), [])
        if not self.store.exists():
            return []
        self.assertEqual(kept_store.files_in(self.store / "tmp"), [])
        done = crucible("store", "verify", "--store", self.store)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.kernels() + self.objects()

    def assert_the_next_run_works(self):
        """With a good compiler, and from the cache after that."""
        self.before("")
        document = self.good()
        self.assert_counts(document, document["kernels"], 0)
        self.assert_counts(self.good(), 0, document["kernels"])
        self.assertGreater(len(self.assert_clean()), document["kernels"])

    # One after the other

    def test_the_second_run_starts_no_compiler(self):
        receipt = self.place / "receipt.json"
        first = self.good("--receipt", receipt)
        self.assert_counts(first, first["kernels"], 0)
        self.assertEqual(json.loads(receipt.read_text())["cache"], first["receipt"]["cache"])
        self.assertGreater(first["receipt"]["cache"]["compile_ns"], 0)
        self.assert_each_compiled_once(first)
        (self.place / "compiled").unlink()
        second = self.good()
        self.assert_counts(second, 0, first["kernels"])
        self.assertFalse((self.place / "compiled").exists(), "a compiler was started")
        self.assertEqual(first["result_sha256"], second["result_sha256"])
        self.assertGreater(len(self.assert_clean()), first["kernels"])

    def test_the_table_says_what_was_compiled(self):
        without_json = [word for word in self.command() if word != "--json"]
        self.assertRegex(
            crucible(*without_json, env=self.environment()).stdout, r"compile .*, (\d+) of \1 kernels compiled\n")
        self.kernels()[0].unlink()
        self.assertRegex(
            crucible(*without_json, env=self.environment()).stdout, r"compile .*, 1 of \d+ kernels compiled\n")
        self.assertRegex(crucible(*without_json, env=self.environment()).stdout, r"compile .*, from the cache\n")

    def test_damage_is_noticed_and_mended(self):
        whole = self.good()
        damages = {
            "cut": lambda data: data[:len(data) // 2],
            "a bit flipped": lambda data: data[:999] + bytes([data[999] ^ 4]) + data[1000:], "empty": lambda data: b"",
            "longer": lambda data: data + b"\0"
        }
        for kind in ("object", "entry"):
            for name, damage in damages.items():
                with self.subTest(f"{kind}: {name}"):
                    path = (self.objects() if kind == "object" else self.kernels())[0]
                    path.write_bytes(damage(path.read_bytes()))
                    done = self.run_it()
                    mended = self.read(done)
                    self.assertRegex(done.stderr, "moved to quarantine" if kind == "object" else "warning: entry ")
                    lost = mended["receipt"]["cache"]["kernels_compiled"]
                    if kind == "entry":
                        self.assertEqual(lost, 1)
                    self.assert_counts(mended, lost, whole["kernels"] - lost)
                    self.assertGreater(lost, 0)
                    self.assertEqual(mended["result_sha256"], whole["result_sha256"])
        self.assert_counts(self.good(), 0, whole["kernels"])

    # At the same time

    def test_two_processes_compile_each_kernel_once(self):
        self.before("sleep 0.5\n")
        both = [self.read(self.finish(process)) for process in [self.start(), self.start()]]
        self.assert_each_compiled_once(both[0])
        self.assertEqual(sum(document["receipt"]["cache"]["kernels_compiled"] for document in both), both[0]["kernels"])
        self.assertEqual(both[0]["result_sha256"], both[1]["result_sha256"])
        self.assert_clean()

    def one_compiles_one_waits(self, *options, script=""):
        """Two processes: the compilers of the first wait for a file called go, the second waits for the first."""
        self.before(WAIT_FOR_GO + script)
        first = self.start()
        self.wait_until(self.starts)
        second = self.start(*options)
        time.sleep(1)
        self.assertIsNone(second.poll(), "it did not wait")
        return first, second

    def go(self):
        (self.place / "go").touch()

    def test_a_compiler_is_killed_while_another_process_waits(self):
        first, second = self.one_compiles_one_waits(
            script=f"if [ ! -e $folder/killed ]; then touch $folder/killed; {HALF_AND_KILLED}fi\n")
        self.go()
        documents = [self.read(self.finish(first)), self.read(self.finish(second))]
        self.assert_counts(documents[1], 0, documents[0]["kernels"])
        self.assertEqual(documents[0]["result_sha256"], documents[1]["result_sha256"])
        self.assert_clean()

    def test_a_process_is_killed_while_another_waits(self):
        first, second = self.one_compiles_one_waits()
        compiled = len(self.starts())
        self.kill(first)
        self.go()
        document = self.read(self.finish(second))
        self.assert_counts(document, document["kernels"], 0)
        self.assertGreater(len(self.starts()), compiled)
        self.assert_counts(self.good(), 0, document["kernels"])
        left = [path for path in self.temporary.iterdir() if path.name.startswith("crucible-build-")]
        self.assertEqual(len(left), 1, "the killed process could not clean up")
        os.utime(left[0], (0, 0))  # long ago
        self.kernels()[0].unlink()
        self.good()
        self.assert_clean()

    def test_a_stopped_process_is_not_waited_for_forever(self):
        first, second = self.one_compiles_one_waits("--set", "backend.cpu.compile_wait_s=2")
        os.killpg(first.pid, signal.SIGSTOP)
        self.go()
        done = self.finish(second)
        self.assertRegex(done.stderr, r"another process has not compiled \d+ kernels in 2 s: compiling them here too")
        os.killpg(first.pid, signal.SIGCONT)
        self.assertEqual(self.read(self.finish(first))["result_sha256"], self.read(done)["result_sha256"])
        self.assert_clean()

    # Compilers that do not work

    def test_a_compiler_that_is_killed_once_is_asked_again(self):
        self.before(f"if [ ! -e $folder/killed ]; then touch $folder/killed; {HALF_AND_KILLED}fi\n")
        done = self.run_it()
        self.assertIn("was ended by signal 9 (Killed); a second try, one file at a time", done.stderr)
        document = self.read(done)
        self.assert_counts(document, document["kernels"], 0)
        self.assert_counts(self.good(), 0, document["kernels"])
        self.assert_clean()

    def assert_one_error(self, done, code, *words):
        self.assert_refused(done, code, *words)
        self.assertEqual(done.stderr.count("crucible: error"), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_compiler_that_is_always_killed(self):
        self.before(HALF_AND_KILLED)
        self.assert_one_error(self.run_it(), 4,
                              f"the compiler does not work: {self.compiler} was ended by signal 9 (Killed)",
                              "memory has run out", "CRUCIBLE_CLANG", "backend.cpu.compiler=PATH")
        self.assertEqual(self.assert_clean(), [])
        self.assert_the_next_run_works()

    def test_a_compiler_that_is_killed_by_a_kernel(self):
        self.before(f'if [ -n "$kernels" ]; then {HALF_AND_KILLED}fi\n')
        self.assert_one_error(self.run_it(), 4, f"{self.compiler} was ended by signal 9 (Killed) on {self.temporary}",
                              ".c (kept), twice", "memory may have run out")

    def test_a_compiler_that_fails(self):
        self.before("echo 'clang: error: no such instruction set'\nexit 3\n")
        self.assert_one_error(
            self.run_it(), 4,
            f"the compiler does not work: {self.compiler} ended with status 3, on a file of one line too",
            "\n  clang: error: no such instruction set\n", "CRUCIBLE_CLANG")
        self.assertEqual(self.assert_clean(), [])
        self.assert_the_next_run_works()

    def test_a_text_that_the_compiler_refuses_is_kept(self):
        self.before("""[ -z "$kernels" ] || echo 'nonsense;' >> "$source"\n""")
        self.assert_one_error(self.run_it(), 5, "ended with status 1 on ", ".c (kept):\n", "nonsense;")
        kept = list(self.temporary.rglob("*.*"))
        self.assertEqual(sorted(path.suffix for path in kept), [".c", ".log"])
        self.assertIn("nonsense;", kept[0].with_suffix(".c").read_text())
        shutil.rmtree(kept[0].parent)
        self.assertEqual(self.assert_clean(), [])
        self.assert_the_next_run_works()

    def test_an_object_that_cannot_be_loaded_is_not_kept(self):
        self.before('[ -z "$kernels" ] || { echo garbage > "$object"; exit 0; }\n')
        self.assert_one_error(self.run_it(), 5, "cannot load what", ".c (kept)")
        self.assertEqual(self.kernels(), [])
        for folder in self.temporary.glob("crucible-build-*"):
            self.assertEqual({path.suffix for path in folder.iterdir()}, {".c", ".log"})
            shutil.rmtree(folder)
        self.assert_the_next_run_works()

    # Folders and disks

    def test_a_folder_that_cannot_be_made(self):
        (self.place / "file").touch()
        done = self.run_it(store=self.place / "file" / "store")
        self.assertRegex(done.stderr, f"warning: nothing is kept for later runs: .*{self.place}/file/store")
        document = self.read(done)
        self.assert_counts(document, document["kernels"], 0)
        self.assertEqual(os.listdir(self.temporary), [])

    def test_no_room_for_any_file(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        done = crucible(*self.command(), env=self.environment(), preexec_fn=limit)
        self.assert_one_error(done, 4, f"cannot write {self.temporary}/crucible-build-", "File too large",
                              "set TMPDIR to a folder with room")
        self.assertEqual(self.assert_clean(), [])
        self.assert_the_next_run_works()

    def mounted(self, script):
        """Runs a shell script that may mount: `replay NAME` runs the command, for document(NAME)."""
        if not can_mount():
            self.skipTest("unshare -rm may not mount here")
        self.store.mkdir(exist_ok=True, mode=0o700)
        replay = " ".join(map(str, [CRUCIBLE, *self.command()]))
        script = f"store={self.store}\nreplay() {{ {replay} > $1.json 2> $1.err; }}\n{script}"
        done = subprocess.run(["unshare", "-rm", "bash", "-ec", script], capture_output=True, text=True, timeout=200,
                              env=self.environment(), cwd=self.place)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def document(self, name):
        document = json.loads((self.place / f"{name}.json").read_text())
        self.assertIs(document["verified"], True)
        return document, (self.place / f"{name}.err").read_text()

    def test_a_full_disk(self):
        for size in ("16k", "48k", "96k"):
            with self.subTest(size):
                self.mounted(
                    f"mount -t tmpfs -o mode=0700,size={size} none $store; replay full; mount -o remount,size=9m $store\n"
                    "replay room; replay again; umount $store")
                full, words = self.document("full")
                self.assert_counts(full, full["kernels"], 0)
                self.assertRegex(words, "(compiled kernels are not kept|nothing is kept for later runs): .*No space left")
                room, words = self.document("room")
                self.assertNotIn("not kept", words)
                again, _ = self.document("again")
                self.assert_counts(again, 0, full["kernels"])
                self.assertEqual({full["result_sha256"], room["result_sha256"]}, {again["result_sha256"]})
                self.assertEqual(os.listdir(self.temporary), [])

    def test_a_read_only_folder_is_used_and_not_written(self):
        whole = self.good()
        self.kernels()[0].unlink()
        before = self.files()
        self.mounted("mount --bind $store $store; mount -o remount,bind,ro $store; replay one")
        document, words = self.document("one")
        self.assert_counts(document, 1, whole["kernels"] - 1)
        self.assertRegex(words, "compiled kernels are not kept: .*store")
        self.assertEqual(self.files(), before)
        shutil.rmtree(self.store)
        self.mounted("mount --bind $store $store; mount -o remount,bind,ro $store; replay empty")
        document, words = self.document("empty")
        self.assert_counts(document, whole["kernels"], 0)
        self.assertRegex(words, "nothing is kept for later runs: .*store.*Read-only file system")
        self.assertEqual(os.listdir(self.temporary), [])

    # Entries of others

    def test_another_compiler_has_its_own_entries(self):
        other = self.make_compiler("other", "-O1")
        first = self.good()
        files = self.files()
        self.assert_counts(self.good(compiler=other), first["kernels"], 0)
        self.assertEqual({name: self.files()[name] for name in files}, files, "entries of the first were changed")
        for compiler in (self.compiler, other):
            self.assert_counts(self.good(compiler=compiler), 0, first["kernels"])
        self.compiler.write_text(self.compiler.read_text() + "# an update\n")
        self.assert_counts(self.good(), first["kernels"], 0)

    def test_another_processor_has_its_own_entries(self):
        first = self.good()
        files = self.files()
        self.mounted(
            "sed 's/^model\\t.*/model\\t\\t: 251/' /proc/cpuinfo > cpuinfo; mount --bind cpuinfo /proc/cpuinfo\n"
            "replay other; replay again")
        self.assert_counts(self.document("other")[0], first["kernels"], 0)
        self.assert_counts(self.document("again")[0], 0, first["kernels"])
        self.assertEqual({name: self.files()[name] for name in files}, files, "entries of the first were changed")
        self.assert_counts(self.good(), 0, first["kernels"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
