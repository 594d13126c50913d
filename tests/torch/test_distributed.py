"""Two ranks of a data-parallel program on the CPU: one file per rank, joined by a manifest, the numbers unchanged."""

import json
import os
import sys
import unittest

from support import CRUCIBLE, RecorderTest

PROGRAM = """
import os
import torch
import torch.distributed as distributed

torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
with open(f"losses{rank}", "w") as out:
    out.write(" ".join(losses))
distributed.destroy_process_group()
"""


class TwoRanks(RecorderTest):
    def losses(self):
        found = []
        for rank in range(2):
            path = os.path.join(self.folder, f"losses{rank}")
            with open(path, encoding="utf-8") as text:
                found.append(text.read().split())
            os.remove(path)
        return found

    def test_files_manifest_and_losses(self):
        path = self.script(PROGRAM)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", path]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        plain = self.run_command(launch, env=environment)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        expected = self.losses()
        done = self.run_command([CRUCIBLE, "record", "-o", self.output, "--iterations", "2", "--json", "--", *launch],
                                env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.losses(), expected, "losses under recording differ from the plain run's")
        document = json.loads(done.stdout)
        self.assertEqual([(file["rank"], file["world_size"], file["iterations"]) for file in document["files"]],
                         [(0, 2, 2), (1, 2, 2)])
        for rank in range(2):
            trace = self.trace(os.path.join(self.folder, f"out.rank{rank}.crtrace"))
            self.assertEqual([[loss["value"].hex() for loss in iteration["losses"]] for iteration in trace.iterations],
                             [[loss] for loss in expected[rank][2:4]])
            self.assertTrue(any(op["name"].startswith("c10d::allreduce_") for op in trace.iteration_ops(1)),
                            "the collective is an op")
        self.assertEqual(document["manifest"], os.path.join(self.folder, "out.crtraces"))
        with open(document["manifest"], encoding="utf-8") as text:
            manifest = json.load(text)
        self.assertEqual([rank["file"] for rank in manifest["ranks"]], ["out.rank0.crtrace", "out.rank1.crtrace"])
        info = self.run_command([CRUCIBLE, "trace", "check", document["manifest"]])
        self.assertEqual(info.returncode, 0, info.stdout + info.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
