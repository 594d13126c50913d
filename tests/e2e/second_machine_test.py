"""What one machine compiled, tried and measured, used by others over a server: with the public key alone nothing is
compiled a second time, and what somebody else wrote is not used.

Environment: as e2e_test.py and remote_servers.py.
"""

import json
import os
import shutil
import unittest

import e2e_test
import kept_store
from e2e_test import crucible
from remote_servers import Nginx, make_key


class SecondMachine(e2e_test.Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours, cls.theirs = make_key(cls.folder, "ours.pem"), make_key(cls.folder, "theirs.pem")
        (cls.folder / "nginx").mkdir()
        cls.server = Nginx(cls.folder / "nginx", is_open=True)
        cls.addClassCleanup(cls.server.end)
        cls.first = cls.replay_on("first", writer=cls.ours)

    @classmethod
    def run_on(cls, machine, *options, writer=None, url=None, **variables):
        """`machine`: whose store it is; `writer` the secret key of one that may write."""
        environment = {**os.environ, "CRUCIBLE_STORE_DIR": str(cls.folder / machine),
                       "CRUCIBLE_STORE_REMOTE": url or cls.server.url, "no_proxy": "*",
                       "CRUCIBLE_STORE_KEYS": f"{cls.ours}.pub", **variables}
        if writer:
            environment |= {"CRUCIBLE_STORE_SIGN": str(writer), "CRUCIBLE_STORE_KEYS": f"{writer}.pub",
                            "CRUCIBLE_STORE_REMOTE_WRITE": "true"}
        return crucible("replay", cls.trace, "--numerics", "strict", "--tune", "measure", "--verify", "--json",
                        *options, env=environment)

    @classmethod
    def replay_on(cls, machine, **named):
        done = cls.run_on(machine, **named)
        assert done.returncode == 0, done.stdout + done.stderr
        document = json.loads(done.stdout)
        assert document["verified"], document
        return {**document, "words": done.stderr}

    def work(self, document):
        """Kernels that were compiled, tried and measured."""
        receipt = document["receipt"]
        return (receipt["cache"]["kernels_compiled"], receipt["trial"]["tried"], receipt["choices"]["measured_now"])

    def forget(self):
        """What other tests did to the server."""
        shutil.rmtree(self.server.data)
        self.server.data.mkdir()
        store = self.folder / "first"
        done = crucible("store", "push", "--store", store, "--remote", self.server.url, "--sign", self.ours,
                        env={**os.environ, "no_proxy": "*"})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_nothing_is_done_twice(self):
        compiled, tried, measured = self.work(self.first)
        self.assertGreater(min(compiled, tried), 0)
        second = self.replay_on("second")
        self.assertEqual(self.work(second), (0, 0, 0), second["words"])
        self.assertEqual(second["result_sha256"], self.first["result_sha256"])
        # Every entry that it took was signed, and it took no more than it needed.
        done = crucible("store", "verify", "--store", self.folder / "second", "--trust", "enforce", "--key",
                        f"{self.ours}.pub", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        keys = [{entry["key"] for entry in kept_store.entries(self.folder / name)} for name in ("first", "second")]
        self.assertLess(keys[1], keys[0])
        # The third time nobody is asked.
        asked = len(self.server.log())
        self.assertEqual(self.work(self.replay_on("second")), (0, 0, 0))
        self.assertEqual(len(self.server.log()), asked)

    def test_what_somebody_else_signed_is_not_used_and_said(self):
        done = crucible("store", "push", "--store", self.folder / "first", "--remote", self.server.url, "--sign",
                        self.theirs, env={**os.environ, "no_proxy": "*"})
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(self.server.data / "ac")
        (self.server.data / "ac").mkdir()
        store = self.folder / "forger"
        shutil.copytree(self.folder / "first", store)
        for path in kept_store.files_in(store / "ac"):  # unsigned again, then signed by the wrong one
            envelope = json.loads(path.read_text())
            path.write_text(json.dumps({**envelope, "signatures": []}))
        done = crucible("store", "push", "--store", store, "--remote", self.server.url, "--sign", self.theirs,
                        env={**os.environ, "no_proxy": "*"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.forget)
        third = self.replay_on("third")
        self.assertEqual(self.work(third)[:2], self.work(self.first)[:2])
        self.assertIn("is not used: no key that may write signed it", third["words"])
        self.assertEqual(third["result_sha256"], self.first["result_sha256"])

    def test_code_that_was_exchanged_is_not_run_and_said(self):
        self.addCleanup(self.forget)
        blobs = kept_store.files_in(self.server.data / "cas")
        self.assertTrue(blobs)
        for path in blobs:
            path.write_bytes(path.read_bytes()[:-4] + b"????")
        fourth = self.replay_on("fourth")
        self.assertEqual(self.work(fourth)[0], fourth["kernels"])
        self.assertRegex(fourth["words"], "is damaged|its bytes are others")
        self.assertEqual(fourth["result_sha256"], self.first["result_sha256"])
        self.assertEqual(self.work(self.replay_on("fourth"))[0], 0, "the folder has what was compiled here")

    def test_without_the_server_the_work_goes_on_and_it_is_said_once(self):
        fifth = self.replay_on("fifth", url="http://127.0.0.1:1")
        self.assertEqual(self.work(fifth)[:2], self.work(self.first)[:2])
        self.assertEqual(fifth["words"].count("127.0.0.1:1"), 1, fifth["words"])

    def test_a_sandboxed_run_asks_nobody(self):
        copy = self.folder / "copy.crtrace"
        shutil.copy(self.trace, copy)
        asked = len(self.server.log())
        done = self.run_on("sixth", "--sandbox")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("cannot be reached", done.stderr)
        self.assertEqual(len(self.server.log()), asked)

    def test_keys_about_servers_that_make_no_sense_are_refused(self):
        done = self.run_on("seventh", url="gopher://127.0.0.1/")
        self.assert_refused(done, 2, "gopher")


if __name__ == "__main__":
    unittest.main(verbosity=2)
