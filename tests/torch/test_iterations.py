"""What an iteration is: programs of many shapes, each with the segmentation that is expected."""

import collections
import dataclasses
import unittest

from in_process import InProcessTest, crucible, model, torch


def batch(rows=5):
    return torch.randn(rows, 4)


class Training(InProcessTest):
    def check(self, trace, losses, per_iteration, first, ops=None):
        """`losses` are those of the whole program in order; iteration i has `per_iteration` of them, from `first`
        on."""
        self.assertEqual(trace.metadata["incomplete_reason"], "", "as many iterations as were asked for")
        expected = [
            losses[first + i * per_iteration:first + (i + 1) * per_iteration] for i in range(len(trace.iterations))
        ]
        self.assertEqual(self.losses(trace), expected)
        counts = self.op_counts(trace)
        self.assertEqual(len(set(counts)), 1, counts)
        self.assertEqual(sum(counts), len(trace.ops), "every op is in an iteration")
        if ops is not None:
            for name, count in ops.items():
                for iteration in range(len(trace.iterations)):
                    self.assertEqual(self.names(trace, iteration).count(name), count, (name, iteration))

    def test_plain_loop(self):
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block() as recording:
            for _ in range(8):
                optimizer.zero_grad()
                loss = net(batch()).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        self.assertEqual(recording.summary["end_of_iteration"], "optimizer")
        self.check(self.trace(), losses, 1, 2, {"aten::tanh": 1})

    def test_gradient_accumulation(self):
        net, losses = model(), []
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        with self.block():
            for _ in range(6):
                for _ in range(3):
                    loss = net(batch()).square().mean() / 3
                    loss.backward()
                    losses.append(loss.item())
                optimizer.step()
                optimizer.zero_grad()
        self.check(self.trace(), losses, 3, 6, {"aten::tanh": 3})

    def test_several_optimizers(self):
        net, head, losses = model(), torch.nn.Linear(1, 1), []
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.AdamW(head.parameters(), lr=0.1)]
        with self.block():
            for _ in range(7):
                loss = head(net(batch())).square().mean()
                loss.backward()
                losses.append(loss.item())
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
        trace = self.trace()
        self.check(trace, losses, 1, 2, {"aten::tanh": 1})
        self.assertEqual(trace.iteration_ops(0)[-1]["phase"], 2, "it ends with the second optimizer's step")

    def gan(self, discriminator_steps, generator_first, steps, **options):
        generator, discriminator, losses = model(), torch.nn.Linear(1, 1), []
        of_generator = torch.optim.Adam(generator.parameters(), lr=0.01)
        of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=0.01)

        def train_generator():
            of_generator.zero_grad()
            loss = -discriminator(generator(batch())).mean()
            loss.backward()
            of_generator.step()
            losses.append(loss.item())

        def train_discriminator():
            of_discriminator.zero_grad()
            loss = (discriminator(generator(batch()).detach()) - discriminator(torch.randn(5, 1))).mean()
            loss.backward()
            of_discriminator.step()
            losses.append(loss.item())

        with self.block(**options):
            for _ in range(steps):
                if generator_first:
                    train_generator()
                for _ in range(discriminator_steps):
                    train_discriminator()
                if not generator_first:
                    train_generator()
        return self.trace(), losses

    def test_generator_and_discriminator_alternate(self):
        for generator_first in (False, True):
            with self.subTest(generator_first=generator_first):
                trace, losses = self.gan(1, generator_first, 7)
                self.check(trace, losses, 2, 4, {"aten::tanh": 2})

    def test_five_discriminator_steps_for_one_of_the_generator(self):
        trace, losses = self.gan(5, False, 6, warmup=1)
        self.check(trace, losses, 6, 12, {"aten::tanh": 6})

    def test_changing_last_batch(self):
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block(iterations=4):
            for rows in (5, 5, 5, 5, 3, 5, 5):
                loss = net(batch(rows)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        trace = self.trace()
        self.check(trace, losses, 1, 2, {"aten::tanh": 1})
        rows = [trace.tensor(op["args"][0])["sizes"][0] for op in trace.ops_named("aten::tanh")]
        self.assertEqual(rows, [5, 5, 3, 5])

    def test_closure(self):
        net, data, losses = model(), batch(), []
        optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3, tolerance_grad=0, tolerance_change=0)

        def closure():
            optimizer.zero_grad()
            loss = net(data).square().mean()
            loss.backward()
            losses.append(loss.item())
            return loss

        with self.block(iterations=2):
            for _ in range(5):
                optimizer.step(closure)
        trace = self.trace()
        per_step = len(losses) // 5
        self.assertEqual([len(of_iteration) for of_iteration in self.losses(trace)], [per_step] * 2)
        self.assertEqual(self.losses(trace)[0], losses[2 * per_step:3 * per_step])
        self.assertEqual({op["phase"] for op in trace.ops_named("aten::tanh")}, {0}, "a closure's forward is forward")
        self.assertEqual({op["phase"] for op in trace.ops_named("aten::tanh_backward")}, {1})
        self.assertEqual(trace.ops[-1]["phase"], 2)

    def test_one_optimizer_per_parameter_stepping_inside_backward(self):
        net, losses = model(), []
        optimizers = {p: torch.optim.SGD([p], lr=0.1, foreach=False) for p in net.parameters()}

        def step(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in net.parameters():
            self.addCleanup(
                parameter.register_post_accumulate_grad_hook(step).remove)  # it would keep the optimizers alive
        with self.block():
            for _ in range(7):
                loss = net(batch()).square().mean()
                loss.backward()
                losses.append(loss.item())
        trace = self.trace()
        self.check(trace, losses, 1, 2, {"aten::tanh": 1})
        phases = [op["phase"] for op in trace.iteration_ops(0)]
        self.assertIn(1, phases[phases.index(2):], "backward goes on after the first step")

    def test_learning_rate_schedule(self):
        net, losses = model(), []
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        with self.block():
            for _ in range(7):
                loss = net(batch()).square().mean()
                loss.backward()
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        self.check(self.trace(), losses, 1, 2, {"aten::tanh": 1})

    def test_marks(self):
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block(iterations=2):
            for _ in range(7):
                for _ in range(2):
                    loss = net(batch()).square().mean()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                crucible.step()
        self.check(self.trace(), losses, 2, 4, {"aten::tanh": 2})

    def test_optimizer_that_never_steps_is_not_waited_for_for_ever(self):
        net, unused = model(), torch.nn.Linear(1, 1)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (net, unused)]
        with self.block(iterations=2):
            for _ in range(19):
                unused(net(batch())).sum().backward()
                optimizers[0].step()
        self.assertEqual(len(self.trace().iterations), 2)
        with self.assertRaisesRegex(crucible.RecordError,
                                    r"an optimizer of the program \(SGD\) never stepped"), self.block():
            for _ in range(8):
                unused(net(batch())).sum().backward()
                optimizers[0].step()
        with self.block(iterations=2):
            for _ in range(5):
                net(batch()).sum().backward()  # the other's parameters are not in use
                optimizers[0].step()

    def test_order_that_changes_later(self):
        first, second = model(), model()
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]
        with self.block(iterations=6) as recording:
            for step in range(12):
                for net, optimizer in zip((first, second), optimizers):
                    if net is first or step < 5:
                        net(batch()).sum().backward()
                        optimizer.step()
        self.assertEqual(len(self.trace().iterations), 3)
        self.assertIn("recorded 3 of 6 iterations: the order of what repeats changed",
                      recording.summary["incomplete"][0])


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    extra: object = None


class Inference(InProcessTest):
    def outputs(self, trace, iteration):
        return {output["name"]: output for output in trace.outputs if output["iteration"] == iteration}

    def test_outermost_call_is_the_iteration(self):
        net, results = model(), []
        with self.block() as recording, torch.no_grad():
            for _ in range(7):
                results.append(net(batch()))
        trace = self.trace()
        self.assertEqual(recording.summary["end_of_iteration"], "module")
        self.assertEqual(len(set(self.op_counts(trace))), 1)
        for iteration in range(3):
            self.assertEqual(self.names(trace, iteration).count("aten::tanh"), 1)
            output = self.outputs(trace, iteration)["0"]
            self.assertEqual(output["blob"]["hex"], results[2 + iteration].cpu().numpy().tobytes().hex())
            self.assertEqual(trace.tensors[output["tensor"]]["sizes"], [5, 1])
            last = [op for op in trace.iteration_ops(iteration) if op["name"] == "aten::addmm"][-1]
            self.assertEqual(output["tensor"], last["outputs"][0]["tensor"], "the tensor that the last op returned")

    def test_names_of_outputs(self):
        Pair = collections.namedtuple("Pair", "left right")

        class Net(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                return {
                    "logits": y, "past": ((y + 1, y + 2), [y + 3]), "pair": Pair(y, 3), "answer": Answer(y + 4),
                    "text": "no"
                }

        net = Net()
        with self.block(iterations=1), torch.inference_mode():
            for _ in range(3):
                net(batch())
        self.assertEqual(sorted(self.outputs(self.trace(), 0)),
                         sorted(["logits", "past.0.0", "past.0.1", "past.1.0", "pair.left", "answer.logits"]))

    def test_views_are_kept_row_major(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return (x + 1).t()

        net = Net()
        with self.block(iterations=1), torch.no_grad():
            results = [net(batch()) for _ in range(4)]
        trace = self.trace()
        output = self.outputs(trace, 0)["0"]
        self.assertEqual(output["blob"]["hex"], results[2].contiguous().cpu().numpy().tobytes().hex())
        self.assertEqual(trace.tensors[output["tensor"]]["strides"], [1, 4])

    def test_a_part_of_a_tensor_keeps_its_place(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return (x + 1)[2:, 1]

        net = Net()
        with self.block(iterations=1), torch.no_grad():
            results = [net(batch()) for _ in range(4)]
        trace = self.trace()
        output = self.outputs(trace, 0)["0"]
        self.assertEqual(output["blob"]["hex"], results[2].contiguous().cpu().numpy().tobytes().hex())
        tensor = trace.tensors[output["tensor"]]
        self.assertEqual((tensor["offset"], tensor["sizes"], tensor["strides"]), (9, [3], [4]))

    def test_marked_steps_of_inference_have_outputs(self):
        net, results = model(), []
        with self.block() as recording, torch.no_grad():
            for _ in range(7):
                results.append(net(batch()))
                net[0](batch()).add_(1)
                crucible.step()
        trace = self.trace()
        self.assertEqual(recording.summary["end_of_iteration"], "step")
        for iteration in range(3):
            outputs = self.outputs(trace, iteration)
            self.assertEqual(sorted(outputs), ["0"], "the other one was changed before the step ended")
            self.assertEqual(outputs["0"]["blob"]["hex"], results[2 + iteration].cpu().numpy().tobytes().hex())
        self.assertEqual([
            item["count"]
            for item in trace.not_recorded
            if item["what"] == "outputs that were changed before the iteration ended"
        ], [3])

    def test_generation_with_a_cache(self):
        class Decoder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.project = torch.nn.Linear(4, 4)

            def forward(self, token, cache):
                cache = torch.cat([cache, self.project(token)], 0)
                return {"logits": cache.mean(0, keepdim=True), "past_key_values": [(cache,)]}

        net = Decoder()
        with self.block(iterations=4), torch.inference_mode():
            out = {"logits": torch.ones(1, 4), "past_key_values": [(torch.zeros(1, 4),)]}
            for _ in range(8):
                out = net(out["logits"].softmax(1), out["past_key_values"][0][0])
        trace = self.trace()
        self.assertEqual(len(set(self.op_counts(trace))), 1)
        lengths = [trace.tensors[self.outputs(trace, i)["past_key_values.0.0"]["tensor"]]["sizes"][0] for i in range(4)]
        self.assertEqual(lengths, [4, 5, 6, 7])
        # The cache of one iteration is read by the next, and its bytes do not enter again.
        made = trace.tensors[self.outputs(trace, 0)["past_key_values.0.0"]["tensor"]]["storage"]
        self.assertEqual(trace.externals_of(made), [])

    def test_two_modules_in_turn(self):
        encoder, head = model(), torch.nn.Linear(1, 1)
        with self.block(), torch.no_grad():
            for _ in range(7):
                head(encoder(batch()))
        trace = self.trace()
        self.assertEqual([self.names(trace, i).count("aten::addmm") for i in range(3)], [3] * 3)
        self.assertEqual(sorted(self.outputs(trace, 1)), ["Linear.0", "Sequential.0"])

    def test_parametrizations_called_while_a_model_is_built_are_no_inference(self):
        program = """
            import torch
            net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
            torch.nn.utils.parametrizations.weight_norm(net[0])
            lengths = [net[0].weight.norm().item() for _ in range(8)]  # each look at the weight calls a module
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for step in range(6):
                optimizer.zero_grad()
                net(torch.randn(5, 4)).square().mean().backward()
                optimizer.step()
        """
        trace = self.recorded(program)
        self.assertGreater(min(self.op_counts(trace)), 50)
        self.assertEqual([len(iteration["losses"]) for iteration in trace.iterations], [1, 1])

    def test_loss_functions_before_training_are_no_inference(self):
        net, losses = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block() as recording:
            with torch.no_grad():
                net(batch())
            for _ in range(7):
                loss = net(batch()).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        self.assertEqual(recording.summary["end_of_iteration"], "optimizer")
        self.assertEqual(self.losses(self.trace()), [[loss] for loss in losses[2:5]])


class Period(InProcessTest):
    """Nothing says where an iteration ends: neither an optimizer nor a mark."""

    def check(self, trace, losses, per_iteration=1):
        self.assertEqual(trace.metadata["incomplete_reason"], "", "as many iterations as were asked for")
        self.assertEqual(len(set(self.op_counts(trace))), 1, self.op_counts(trace))
        self.assertEqual(len({tuple(self.names(trace, i)) for i in range(len(trace.iterations))}), 1)
        found = [loss for of_iteration in self.losses(trace) for loss in of_iteration]
        first = losses.index(found[0])
        self.assertEqual(found, losses[first:first + per_iteration * len(trace.iterations)], "consecutive, none twice")

    def manual_sgd(self, micro_batches, steps):
        net, losses = model(), []
        with self.block() as recording:
            for _ in range(steps):
                for _ in range(micro_batches):
                    loss = net(batch()).square().mean()
                    loss.backward()
                    losses.append(loss.item())
                with torch.no_grad():
                    for p in net.parameters():
                        p -= 0.1 * p.grad
                for p in net.parameters():
                    p.grad = None
        self.assertEqual(recording.summary["end_of_iteration"], "period")
        return self.trace(), losses

    def test_sgd_by_hand(self):
        trace, losses = self.manual_sgd(1, 20)
        self.check(trace, losses)
        last = [op["name"] for op in trace.iteration_ops(0)][-1]
        self.assertEqual(last, "aten::sub_.Tensor", "an iteration ends with the last write to what lives on")

    def test_sgd_by_hand_with_gradient_accumulation(self):
        trace, losses = self.manual_sgd(4, 24)
        self.check(trace, losses, 4)
        self.assertEqual(trace.iteration_ops(1)[-1]["name"], "aten::sub_.Tensor")

    def test_functional_training(self):
        weights, losses = [torch.randn(4, 3, requires_grad=True), torch.randn(3, 1, requires_grad=True)], []
        with self.block():
            for _ in range(20):
                loss = (batch() @ weights[0]).tanh().matmul(weights[1]).square().mean()
                gradients = torch.autograd.grad(loss, weights)
                weights = [(w - 0.1 * g).detach().requires_grad_() for w, g in zip(weights, gradients)]
                losses.append(loss.item())
        trace = self.trace()
        self.assertEqual([self.names(trace, i).count("aten::tanh_backward") for i in range(3)], [1, 1, 1])
        self.assertEqual(len(set(self.op_counts(trace))), 1)

    def test_without_gradients_on_request(self):
        state, weight = torch.zeros(4), torch.randn(4)
        with self.block(end_of_iteration="period"):
            for _ in range(200):
                state.add_((state * weight).sin().cos())
        trace = self.trace()
        self.assertEqual(self.names(trace, 0), ["aten::mul.Tensor", "aten::sin", "aten::cos", "aten::add_.Tensor"])

    def test_layers_that_repeat_are_no_iterations(self):
        layers, losses = [torch.randn(4, 4, requires_grad=True) for _ in range(12)], []
        with self.block():
            for _ in range(20):
                x = batch()
                for layer in layers:
                    x = (x @ layer).tanh()
                loss = x.square().mean()
                loss.backward()
                losses.append(loss.item())
                with torch.no_grad():
                    for layer in layers:
                        layer -= 0.01 * layer.grad
                        layer.grad = None
        trace = self.trace()
        self.check(trace, losses)
        self.assertEqual(self.names(trace, 0).count("aten::tanh"), 12)

    def test_nothing_repeats(self):
        text = "no optimizer step was seen, and what repeats was not found; call crucible.step"
        with self.assertRaisesRegex(crucible.RecordError, text), self.block():
            for i in range(40):
                w = torch.ones(i + 1, requires_grad=True)
                w.sin().sum().backward()

    def test_period_that_ends(self):
        with self.block(end_of_iteration="period", iterations=50) as recording:
            x = torch.zeros(4)
            for i in range(120):
                x.sin().cos().add_(1)
                if i == 110:
                    x.exp()
        self.assertIn("of 50 iterations: the order of what repeats changed after them",
                      recording.summary["incomplete"][0])


class Generators(InProcessTest):
    def test_states_at_the_start_of_iterations(self):
        net, states = model(), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block():
            for step in range(7):
                if step == 4:
                    torch.manual_seed(17)
                net(batch()).sum().backward()
                optimizer.step()
                states.append(torch.get_rng_state().numpy().tobytes().hex())
        trace = self.trace()
        self.assertEqual([(g["iteration"], g["device"]) for g in trace.generators], [(i, "cpu") for i in range(3)])
        self.assertEqual([g["blob"]["hex"] for g in trace.generators], states[1:4])


if __name__ == "__main__":
    unittest.main(verbosity=2)
