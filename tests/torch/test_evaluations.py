"""Evaluations among training steps: what is left out, what is passed over, what the file says of it."""

import unittest

from in_process import InProcessTest, crucible, model, torch


def batch(rows=5):
    return torch.randn(rows, 4)


class Evaluation(InProcessTest):
    def test_iteration_with_an_evaluation_is_passed_over(self):
        net, losses = model(), []
        net.append(torch.nn.BatchNorm1d(1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        with self.block(iterations=4) as recording:
            for step in range(10):
                weights = net[0].weight.detach().clone() if step == 5 else None
                if weights is not None:
                    before = weights
                loss = net(batch()).square().mean()
                if step in (4, 6):
                    with torch.no_grad():
                        for _ in range(3):
                            net(batch()).sigmoid()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        trace = self.trace()
        self.assertEqual(self.losses(trace), [[losses[step]] for step in (2, 3, 5, 7)])
        self.assertEqual(recording.summary["notes"], ["2 iterations with an evaluation inside passed over"])
        self.assertEqual(trace.ops_named("aten::sigmoid"), [])
        # Iteration 2 begins with what the passed one left behind: the bytes are in the file again.
        entered = [e for e in trace.externals if e["name"] == "0.weight"]
        self.assertEqual([e["iteration"] for e in entered], [0, 2, 3])
        self.assertEqual(entered[1]["blob"]["hex"], before.cpu().numpy().tobytes().hex())
        final = {state["name"]: state["blob"]["hex"] for state in trace.final_states}
        self.assertIn("3.running_mean", final)

    def test_evaluation_between_two_steps_is_all_that_is_left_out(self):
        """The step behind it is recorded, whatever the program logged in front of it."""
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        with self.block(iterations=5) as recording:
            for step in range(8):
                loss = net(batch()).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                if step in (2, 4):
                    wanted = net[0].weight.norm().item()
                    with torch.no_grad():
                        print(sum(net(batch()).sigmoid().sum() for _ in range(3)).item())
        trace = self.trace()
        self.assertEqual(self.losses(trace), [[losses[step]] for step in range(2, 7)])
        self.assertEqual(recording.summary["notes"], ["2 evaluations between iterations left out"])
        self.assertEqual(trace.ops_named("aten::sigmoid"), [])
        entered = [e["iteration"] for e in trace.externals if e["name"] == "0.weight"]
        self.assertEqual(entered, [0], wanted)  # carried over the evaluations, which changed nothing

    def test_other_work_behind_an_evaluation(self):
        """What follows it until the next step is more than a step: a variant of its own."""
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block(iterations=4) as recording:
            for step in range(8):
                loss = net(batch()).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                if step == 3:
                    with torch.no_grad():
                        found = net(batch())
                    found = found.sigmoid().mean()
        self.assertEqual(self.losses(self.trace()), [[losses[step]] for step in (2, 3, 4, 5)])
        self.assertEqual(recording.summary["notes"], ["1 evaluation between iterations left out"])

    def test_final_states_are_those_before_an_evaluation_that_ends_the_program(self):
        net = model()
        net.append(torch.nn.BatchNorm1d(1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block(iterations=9) as recording:
            for _ in range(5):
                net(batch()).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            kept = {name: value.detach().clone() for name, value in net.state_dict().items()}
            with torch.no_grad():
                net(batch())  # writes the running statistics, unseen
            net(batch()).square().mean().backward()
        self.assertEqual(recording.summary["iterations"], 3)
        final = {state["name"]: state["blob"]["hex"] for state in self.trace().final_states}
        self.assertEqual(final["0.weight"], kept["0.weight"].cpu().numpy().tobytes().hex())
        self.assertNotIn("3.running_mean", final,
                         "the evaluation has changed it: its bytes are those of no recorded iteration")

    def test_teacher_without_gradients_is_part_of_every_iteration(self):
        net, teacher, losses = model(), model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block():
            for _ in range(7):
                data = batch()
                with torch.no_grad():
                    wanted = teacher(data)
                loss = (net(data) - wanted).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        trace = self.trace()
        self.assertEqual(self.losses(trace), [[loss] for loss in losses[2:5]])
        self.assertEqual(len(trace.ops_named("aten::tanh", 0)), 2)

    def test_a_solver_inside_a_function_is_no_evaluation(self):
        """However often it calls the module: the framework switches gradients off, not the program."""
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        class Sum(torch.autograd.Function):
            @staticmethod
            def forward(ctx, data, times, *weights):
                ctx.shapes = [weight.shape for weight in weights]
                return sum(net(data).sum() for _ in range(times))

            @staticmethod
            def backward(ctx, gradient):
                return None, None, *(gradient.expand(shape) for shape in ctx.shapes)

        with self.block(iterations=4) as recording:
            for step in range(7):
                loss = Sum.apply(batch(), 9 if step == 4 else 1, *net.parameters())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        self.assertEqual(recording.summary["notes"], [])
        counts = self.op_counts(self.trace())
        self.assertEqual(len(counts), 4)
        self.assertGreater(counts[2], 3 * counts[1], "the calls of the third iteration are in it")

    def test_phase_evaluation(self):
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        total = torch.zeros(())
        with self.block():
            for step in range(7):
                with crucible.phase("evaluation"):
                    total += net(batch()).detach().sigmoid().sum()
                loss = net(batch()).square().mean() + 0 * total.expm1()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        trace = self.trace()
        self.assertEqual(self.losses(trace), [[loss] for loss in losses[2:5]])
        self.assertEqual(trace.ops_named("aten::sigmoid"), [])
        self.assertEqual(len(set(self.op_counts(trace))), 1)
        entered = [e for e in trace.externals if e["storage"] == trace.storage(trace.one("aten::expm1")["args"][0])]
        self.assertEqual(len({e["blob"]["hex"] for e in entered}), 3,
                         "what the unseen ops wrote is taken in every iteration")


if __name__ == "__main__":
    unittest.main()
