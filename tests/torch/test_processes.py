"""Programs of several processes: who is recorded, who is left alone, what the others see."""

import json
import os
import sys
import unittest

from support import CRUCIBLE, LOOP, RecorderTest

LOOK = "import os; print('child', os.environ.get('CRUCIBLE_RECORDING'), os.environ.get('PYTHONPATH'))"


class BecomingAnother(RecorderTest):
    """os.exec: scripts that set an environment variable and start themselves anew."""

    fresh = True

    AGAIN = "import os, sys\nif 'again' not in sys.argv:\n    {before}os.environ['OMP_NUM_THREADS'] = '1'\n    {call}\n"

    def test_the_program_that_it_becomes_is_recorded(self):
        for call in (
                "os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])",
                "os.execve(sys.executable, [sys.executable, *sys.argv, 'again'], {**os.environ, 'PYTHONPATH': '/nowhere'})",
                "os.execlp(sys.executable, sys.executable, sys.argv[0], 'again')"):
            for before in ("", "import torch; "):
                with self.subTest(call=call, before=before):
                    look = "print(os.environ.get('CRUCIBLE_RECORDING'), os.environ.get('PYTHONPATH'), os.environ.get('OMP_NUM_THREADS'))\n"
                    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
                    done = self.record(self.AGAIN.format(before=before, call=call) + LOOP + look, env=environment)
                    path = "/nowhere" if "nowhere" in call else "None"
                    self.assertEqual((done.returncode, done.stdout), (0, f"None {path} 1\n"), done.stderr)
                    self.assertEqual(len(self.trace().iterations), 4)
                    os.unlink(self.output)

    def test_in_the_middle_what_is_complete_is_written(self):
        program = LOOP + "    if step == 4: import os; os.execv(sys.executable, [sys.executable, '-c', 'import torch; print(1)'])\n"
        done = self.record(program)
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)
        self.assertIn("recorded 3 of 4 iterations: the program became another one (os.exec)", done.stderr)
        self.assertEqual(len(self.trace().iterations), 3)

    def test_one_that_cannot_start_leaves_all_as_it_was(self):
        program = "import os\n" + LOOP + "    if step == 0:\n        try: os.execv('/nowhere/python', ['python'])\n        except OSError as error: print(error.errno)\n"
        done = self.record(program)
        self.assertEqual((done.returncode, done.stdout), (0, "2\n"), done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)


class Children(RecorderTest):
    fresh = True

    def test_spawned_children_see_nothing(self):
        program = LOOP + f"    if step == 3: import subprocess; subprocess.run([sys.executable, '-c', {LOOK!r}], check=True)\n"
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = self.record(program, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, "child None None\n"), done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)

    @unittest.skipIf(
        "libasan" in os.environ.get("LD_PRELOAD", ""),
        "a fork may meet the address sanitizer's own allocator locked by another thread: the child waits for ever")
    def test_forked_children_record_and_write_nothing(self):
        program = "import os, multiprocessing\n" + LOOP + """
    if step == 4:
        def work(queue):
            import crucible
            out = torch.nn.Linear(2, 2)(torch.ones(2)).tan()
            queue.put((crucible.is_recording(), torch._C._dispatch_tls_is_dispatch_key_included("Fake"), tuple(out.shape)))
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        child = context.Process(target=work, args=(queue,))
        child.start(); print(queue.get()); child.join()
        pid = os.fork()
        if pid == 0:
            for _ in range(5):  # steps of the child's own
                optimizer.zero_grad(); model(data[0]).sum().backward(); optimizer.step()
            sys.exit(0)  # runs the exit handlers
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
        done = self.record(program)
        self.assertEqual((done.returncode, done.stdout), (0, "(False, False, (2,))\n0\n"), done.stderr)
        trace = self.trace()
        self.assertEqual(len(trace.iterations), 4)
        self.assertEqual(len({iteration["op_count"] for iteration in trace.iterations}), 1)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")], ["out.crtrace"])

    def test_children_option_records_each_into_a_file_of_its_own(self):
        child = self.script(LOOP, "child.py")
        program = LOOP + f"import subprocess\nprint(subprocess.run([sys.executable, {child!r}]).returncode)\n"
        done = self.record(program, options=("--children", "--iterations", "2", "--json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual([os.path.basename(file["path"]) for file in document["files"]],
                         ["out.crtrace", "out.process1.crtrace"])
        self.assertIsNone(document["manifest"])
        for file in document["files"]:
            self.assertEqual(len(self.trace(file["path"]).iterations), 2)

    def test_child_that_fails_is_told_of(self):
        child = self.script(
            LOOP.replace("range(10):\n    opt",
                         "range(3):\n    opt").replace("    loss.backward()",
                                                       "    if step == 2: break\n    loss.backward()"), "child.py")
        program = LOOP + f"import subprocess\nsubprocess.run([sys.executable, {child!r}])\n"
        done = self.record(program, options=("--children",))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("process 1 was not recorded: no iteration was recorded whole: the program ended", done.stderr)


class Launchers(unittest.TestCase):
    def test_what_is_a_launcher(self):
        sys.path.insert(0, os.path.join(os.environ["CRUCIBLE_BUILD"], "python"))
        from crucible_torch.processes import is_launcher, name_of_part

        for words in (["python", "/venv/bin/torchrun",
                       "train.py"], ["python", "-m", "torch.distributed.run",
                                     "x.py"], ["python", "-u", "-X", "dev", "-m",
                                               "torch.distributed.launch"], ["python", "/bin/accelerate", "launch"]):
            self.assertTrue(is_launcher(words), words)
        for words in (["python", "train.py", "torchrun"], ["python", "-c",
                                                           "torchrun"], ["python", "-m",
                                                                         "train"], ["python"], ["python",
                                                                                                "-m"], ["python", "-"]):
            self.assertFalse(is_launcher(words), words)
        self.assertEqual(name_of_part("/a.b/step.crtrace", "rank1"), "/a.b/step.rank1.crtrace")


if __name__ == "__main__":
    unittest.main(verbosity=2)
