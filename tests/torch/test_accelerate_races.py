"""Four threads of accelerated inference, through one stand-in and through one for each thread, while a fifth trains. Built with the thread
sanitizer, the runtime, the CPU plugin and the extension run under it here: what two threads touch without order is a failure."""

import json
import os
import sys
import unittest

from support import BUILD, ROOT, RecorderTest

PROGRAM = """
import json, sys, threading
sys.path.insert(0, sys.argv[1])
import crucible
import torch

THREADS, ROUNDS = 4, int(sys.argv[2])
torch.set_num_threads(2)
torch.manual_seed(0)

def net():
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()

def settle(call, *arguments):
    for _ in range(40):
        call(*arguments)
        call.wait(200)
        if call.report().tier == "compiled":
            return
    raise SystemExit(str(call.report()))

shared, trained = net(), net()
optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)

def train(x):
    optimizer.zero_grad()
    loss = trained(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()

together, step = crucible.accelerate(shared), crucible.accelerate(train)
own = [net() for _ in range(THREADS)]
alone = [crucible.accelerate(each) for each in own]
with torch.inference_mode():
    for call in (together, *alone):
        settle(call, torch.randn(4, 8))
settle(step, torch.randn(4, 8))
late = crucible.accelerate(net())  # compiled while the others run
start, problems = threading.Barrier(THREADS + 2), []

def infer(number):
    generator = torch.Generator().manual_seed(number)
    with torch.inference_mode():
        for _ in range(ROUNDS):
            x = torch.randn(4, 8, generator=generator)
            for call, module in ((together, shared), (alone[number], own[number])):
                if not torch.allclose(call(x), module(x), atol=1e-5):
                    problems.append(f"thread {number}: another result")

def go_on():
    for _ in range(ROUNDS):
        step(torch.randn(4, 8))

def begin():
    with torch.inference_mode():
        for _ in range(ROUNDS):
            late(torch.randn(4, 8))
        late.report().to_json()

def guarded(work, *arguments):
    start.wait()
    try:
        work(*arguments)
    except BaseException as error:
        problems.append(repr(error))

works = [(infer, number) for number in range(THREADS)] + [(go_on,), (begin,)]
threads = [threading.Thread(target=guarded, args=work) for work in works]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
late.wait(200)
print(json.dumps([problems, [call.report().compiled_calls for call in (together, *alone, step)],
                  [line for call in (together, *alone, step) for line in call.report().mismatches]]))
"""

ROUNDS = 100


class Threads(RecorderTest):
    maxDiff = None

    def test_four_threads_of_inference_while_another_trains(self):
        preload = os.environ.get("CRUCIBLE_PRELOAD", "")
        # torch locks some mutexes where the sanitizer does not look and unlocks them in functions of its headers, where
        # it does.
        options = f"report_mutex_bugs=0:suppressions={os.path.join(ROOT, 'tests', 'tsan.supp')}"
        environment = {**os.environ, "TSAN_OPTIONS": options}
        if preload:
            environment["LD_PRELOAD"] = preload
        done = self.run_command([sys.executable, self.script(PROGRAM), os.path.join(BUILD, "python"), str(ROUNDS)],
                                env=environment)
        self.assertEqual(done.returncode, 0, done.stderr[-20000:])
        problems, compiled, mismatches = json.loads(done.stdout.strip().splitlines()[-1])
        self.assertEqual((problems, mismatches), ([], []))
        for calls in compiled[1:]:
            # With more threads than processors a compiled call may turn out slower than eager, at its 32nd.
            self.assertGreater(calls, 16, "calls of these threads ran compiled")
        self.assertGreater(compiled[0], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
