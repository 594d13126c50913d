"""What a recording tells of its maker: `trace info --private`, `record --no-command --no-paths`, `trace strip`.

The scan walks the raw file - its bytes, each section of the table and each blob uncompressed - and knows no record of
any table, so that a field that is new is looked into as well.
"""

import getpass
import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import unittest

from support import CRUCIBLE, ROOT, RecorderTest

sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
import crtrace  # noqa: E402
from codecs_of_c import unzstd  # noqa: E402

USER = "zaphodb"  # of the home folder that the tests make
PROGRAM = """
    import os, struct, sys
    import torch
    import torch.nn.functional as F

    class SecretLayer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.classified_weight = torch.nn.Parameter(torch.randn(8, 8) * 0.1)
            self.register_buffer("hidden_scale", torch.ones(8))
        def forward(self, x):
            return F.dropout(x @ self.classified_weight * self.hidden_scale, 0.1)

    class WhiteRabbit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding_of_words = torch.nn.Embedding(50, 8)
            self.secret_block = SecretLayer()
            self.classifier_head = torch.nn.Linear(8, 5)
        def forward(self, tokens):
            return self.classifier_head(self.secret_block(self.embedding_of_words(tokens)).mean(1))

    torch.manual_seed(3)
    model = WhiteRabbit()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    marker = torch.tensor([[(i * 37 + 11) % 50 for i in range(12)] for _ in range(4)])
    target = torch.tensor([1, 4, -100, 0])
    for step in range(6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model((marker + step) % 50), target)
        loss.backward()
        optimizer.step()
        loss.item()
"""
NAMES = ("classified_weight", "hidden_scale", "SecretLayer", "WhiteRabbit", "embedding_of_words", "secret_block",
         "classifier_head")


def everything_in(path):
    """All bytes that a file holds, uncompressed."""
    with open(path, "rb") as source:
        file = source.read()
    pieces = [file]
    for number in range(struct.unpack_from("<I", file, 16)[0]):
        _, codec, offset, stored, raw = struct.unpack_from("<IIQQQ", file, 64 + 48 * number)
        if codec == 1:
            pieces.append(bytes(unzstd(file[offset:offset + stored], raw)))
    trace = crtrace.read(path)
    return pieces + [trace.blob(number) for number in range(len(trace.blobs))]


class Private(RecorderTest):
    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.folder, "home", USER)
        self.project = os.path.join(self.home, "top_secret_project")
        os.makedirs(self.project)
        self.environment = {
            **os.environ, "HOME": self.home, "USER": USER, "XDG_CACHE_HOME": os.path.expanduser("~/.cache")
        }

    def record_program(self, *options, program=PROGRAM, **keywords):
        path = os.path.relpath(self.script(program), self.folder)
        os.rename(os.path.join(self.folder, path), os.path.join(self.project, "whistle.py"))
        command = [
            CRUCIBLE, "record", "-o", self.output, "--iterations", "2", *options, "--", sys.executable,
            os.path.join(self.project, "whistle.py"), "--api-key=hunter2x", "--data",
            os.path.join(self.home, "passwords.db")
        ]
        done = self.run_command(command, env=self.environment, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)

    def crucible(self, *arguments):
        return self.run_command([CRUCIBLE, *arguments], env=self.environment)

    def find(self, path, words):
        pieces = everything_in(path)
        return [
            word for word in words
            if any((word if isinstance(word, bytes) else word.encode()) in piece for piece in pieces)
        ]

    def test_only_its_owner_may_read_it(self):
        self.record_program(preexec_fn=lambda: os.umask(0))
        self.assertEqual(stat.S_IMODE(os.stat(self.output).st_mode), 0o600)

    def test_the_private_report_names_everything(self):
        self.record_program()
        table = self.crucible("trace", "info", self.output, "--private")
        self.assertEqual(table.returncode, 0, table.stderr)
        for word in ("--api-key", os.path.join(self.project, "whistle.py"), "passwords.db", "parameters",
                     "byte by byte", "0600", "classifier_head"):
            self.assertIn(word, table.stdout)
        document = json.loads(self.crucible("trace", "info", self.output, "--private", "--json").stdout)
        self.assertIn("hunter2x", document["command"])
        self.assertIn(os.path.join(self.home, "passwords.db"), document["paths"])
        self.assertEqual(document["secret_options"], ["--api-key"])
        self.assertIn(USER, document["users"])
        self.assertIn("secret_block", document["modules"])
        self.assertIn("exp_avg of secret_block.classified_weight", document["tensors"])
        self.assertIn("parameters", [data["what"] for data in document["data"]])
        self.assertFalse(document["stripped"])
        self.assertFalse(document["others_may_read"])

    def test_a_recording_without_command_and_paths(self):
        self.record_program("--no-command", "--no-paths", cwd=self.project)
        self.assertEqual(
            self.find(self.output, [USER, self.folder, "hunter2x", "passwords.db", sys.prefix, "top_secret_project"]),
            [])
        sites = {site[0] for site in crtrace.read(self.output).sites}
        self.assertIn("whistle.py", sites)
        self.assertEqual([site for site in sites if site.startswith("/")], [])
        document = json.loads(self.crucible("trace", "info", self.output, "--private", "--json").stdout)
        self.assertEqual((document["command"], document["paths"], document["users"]), ("", [], []))
        self.assertEqual(self.crucible("replay", self.output, "--verify", "--backend", "reference").returncode, 0)

    def test_the_command_stays_without_its_paths(self):
        failing = PROGRAM + "        if step == 3: open('/nowhere/' + os.path.expanduser('~') + '/missing')\n"
        path = self.script(failing)
        done = self.run_command([
            CRUCIBLE, "record", "-o", self.output, "--iterations", "3", "--no-paths", "--", sys.executable, path,
            "--data=" + self.home
        ], env=self.environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.find(self.output, [self.folder, USER]), [])
        metadata = crtrace.read(self.output).metadata
        self.assertRegex(metadata["command"], r"python\S* program.py --data=~$")
        self.assertRegex(metadata["incomplete_reason"], "FileNotFoundError.*'missing'")

    def test_from_inside_a_program(self):
        program = "import crucible\n" + re.sub("^    ", "", PROGRAM, flags=re.M).replace(
            "for step in range(6):",
            "with crucible.record(sys.argv[1], iterations=2, command=False, paths=False):\n  for step in range(6):"
        ).replace("\n    optimizer.zero", "\n      optimizer.zero").replace("\n    loss", "\n      loss").replace(
            "\n    optimizer.step", "\n      optimizer.step")
        path = self.script(program)
        environment = {**self.environment, "PYTHONPATH": os.path.join(os.path.dirname(CRUCIBLE), "python")}
        done = self.run_command([sys.executable, path, self.output], env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.find(self.output, [self.folder, USER]), [])
        self.assertEqual(crtrace.read(self.output).metadata["command"], "")

    def test_a_stripped_copy_has_nothing_and_replays(self):
        self.record_program()
        secrets = [
            USER, self.folder, "whistle", "hunter2x", "api-key", "passwords", "top_secret_project", sys.prefix, *NAMES
        ]
        # A shorter name is among the bytes of any data by chance ("vm"), or a word of the format ("root").
        secrets += [name for name in (socket.gethostname(), getpass.getuser()) if len(name) > 5]
        before = crtrace.read(self.output)
        data = [before.blob(number) for number in range(len(before.blobs))]
        # Windows of what is not a run of one value; single numbers are what statistics tell anyway.
        windows = {
            piece[at:at + 16]
            for piece in data
            for at in range(0,
                            min(len(piece), 4096) - 15, 8)
            if len(set(piece[at:at + 16])) > 8
        }
        self.assertGreater(len(self.find(self.output, secrets)), 8, "the scan finds nothing")
        self.assertGreater(len(windows), 50)
        self.assertEqual(len(self.find(self.output, list(windows)[:20])), 20, "the scan does not look into blobs")
        copy = os.path.join(self.folder, "copy.crtrace")
        done = self.crucible("trace", "strip", self.output, copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(copy).st_mode), 0o600)
        self.assertEqual(self.find(copy, secrets), [])
        self.assertEqual(self.find(copy, list(windows)), [])
        self.check_texts(before, copy)
        self.assertEqual(self.crucible("trace", "check", copy).returncode, 0)
        for backend in ("reference", "cpu"):
            done = self.crucible("replay", copy, "--backend", backend)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.crucible("replay", copy, "--verify", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["verified"], False)
        self.assertEqual(document["reason"], "the recording was stripped")
        self.assertIn("not verified: the recording was stripped", self.crucible("replay", copy, "--verify").stdout)
        private = json.loads(self.crucible("trace", "info", copy, "--private", "--json").stdout)
        self.assertTrue(private["stripped"])
        self.assertEqual((private["command"], private["paths"], private["users"], private["hosts"]), ("", [], [], []))

    def check_texts(self, before, copy):
        """No text of the original's tables of names is in the copy, whatever it is."""
        texts = {
            text for table in ("sites", "modules", "externals", "final_states", "outputs")
            for record in before.tables[table] for text in (record if isinstance(record, (tuple, list)) else (record,))
            if isinstance(text, str)
        }
        words = {word for text in texts for word in re.findall(r"[A-Za-z_]{6,}", text)
                } - {"exp_avg", "exp_avg_sq", "module", "crucible"}
        schemas = " ".join(" ".join(schema) for schema in before.schemas)
        words = {word for word in words if word not in schemas}
        self.assertGreater(len(words), 5)
        self.assertEqual(self.find(copy, sorted(words)), [])

    def test_stripping_refuses_what_it_cannot_strip(self):
        done = self.crucible("trace", "strip", os.path.join(self.folder, "none.crtrace"), self.output)
        self.assertEqual(done.returncode, 3)
        with open(self.output, "w", encoding="utf-8") as out:
            out.write("x")
        done = self.crucible("trace", "strip", self.output, self.output)
        self.assertEqual(done.returncode, 2, done.stderr)  # it is there already


if __name__ == "__main__":
    unittest.main()
