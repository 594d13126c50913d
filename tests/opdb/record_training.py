"""Records PyTorch's own optimizer and module databases: training steps of every optimizer in every configuration and
flavour, and every module forward and backward. As record_samples.py, whose output and options it shares: one recording
per entry, one module
`sample_K` per configuration.
"""

import copy
import json
import pathlib
import warnings

import torch
from torch.utils._pytree import tree_flatten

from record_samples import Sample, is_plain, main, make_recording

FLAVOURS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class OptimizerSteps(torch.nn.Module):
    """A small regression; each call is one step of an optimizer. Its parameters are the results."""

    def __init__(self, optimizer, arguments, only_matrices, dtype):
        super().__init__()
        generator = torch.Generator().manual_seed(3)

        def make(*sizes):
            return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)

        self.weight = torch.nn.Parameter(make(4, 3))
        if not only_matrices:
            self.bias = torch.nn.Parameter(make(3))
            self.scale = torch.nn.Parameter(make())
        self.data = [make(5, 4), make(5, 3)]
        self.optimizer = [optimizer(list(self.parameters()), **arguments)]  # a list: no attribute of a module
        self.count = len(list(self.parameters()))

    def loss(self):
        x, wanted = self.data
        y = x @ self.weight
        if hasattr(self, "bias"):
            y = (y + self.bias) * self.scale
        return (y - wanted).square().mean()

    def forward(self):
        optimizer = self.optimizer[0]
        optimizer.zero_grad()
        if type(optimizer).__name__ == "LBFGS":

            def closure():
                optimizer.zero_grad()
                loss = self.loss()
                loss.backward()
                return loss

            optimizer.step(closure)
            return
        self.loss().backward()
        optimizer.step()


class ModuleCall(Sample):
    """One call of a module, with the gradients of its parameters and inputs."""

    def __init__(self, module, inputs):
        torch.nn.Module.__init__(self)
        self.module = module
        self.start(lambda first, *rest, **named: self.module(*first, *rest, **named), inputs, True)

    def leaves(self, sample):
        return [*self.module.parameters(), *super().leaves(sample)]


class Inputs:
    """A module's arguments as a sample of the op database has them."""

    def __init__(self, call):
        self.input, self.args, self.kwargs = call.args, (), call.kwargs

    @staticmethod
    def output_process_fn_grad(output):
        return output


class OptimizerEntry:
    def __init__(self, info):
        self.info, self.name = info, info.optim_cls.__name__

    def samples(self, dtype, skip):
        for flavour, flags in FLAVOURS.items():
            if flavour != "loop" and flavour not in self.info.supported_impls:
                continue
            for config in self.info.optim_inputs_func(device="cpu", dtype=dtype):
                if config.kwargs.get("differentiable") or config.kwargs.get("capturable"):
                    skip("differentiable or capturable")
                    continue
                made = self.make(
                    {**config.kwargs, **(flags if flavour != "loop" or "foreach" in self.info.supported_impls else {})},
                    dtype)
                if made:
                    yield made
                else:
                    skip("eager refuses the configuration")

    def errors(self, number, made):
        """Muon computes its step in bfloat16 whatever the parameters are: it is known up to that."""
        if self.name != "Muon":
            return {}
        trial = copy.deepcopy(made)
        before = trial.weight.detach().clone()
        for _ in range(5):
            trial()
        return {f"sample_{number}.weight": (trial.weight - before).abs().max().item() * 2**-7}

    def make(self, arguments, dtype):
        for only_matrices in (False, True):
            try:
                OptimizerSteps(self.info.optim_cls, copy.deepcopy(arguments), only_matrices, dtype)()
                return OptimizerSteps(self.info.optim_cls, copy.deepcopy(arguments), only_matrices, dtype)
            except Exception:
                continue
        return None


class ModuleEntry:
    def __init__(self, info):
        self.info, self.name = info, info.formatted_name

    def errors(self, number, made):
        return {}

    def samples(self, dtype, skip):
        for training in (True, False):
            for found in self.info.module_inputs_func(self.info, device="cpu", dtype=dtype, requires_grad=True,
                                                      training=training):
                values = tree_flatten(
                    (found.forward_input.args, found.forward_input.kwargs))[0] if found.forward_input else []
                if not values or not all(map(is_plain, values)):
                    skip("no inputs, or one that is not strided")
                    continue
                try:
                    module = self.info.module_cls(*found.constructor_input.args,
                                                  **found.constructor_input.kwargs).to(dtype)
                    made = ModuleCall(module.train(training), Inputs(found.forward_input))
                except Exception as error:
                    skip(f"eager: {type(error).__name__}")
                    continue
                if made.is_plain and made.count:
                    yield made
                else:
                    skip("a result that is not strided")


def record(entry, dtype, folder, most):
    torch.manual_seed(1)
    skipped = {}

    def skip(reason):
        skipped[reason] = skipped.get(reason, 0) + 1

    samples = list(entry.samples(dtype, skip))
    if most and len(samples) > most:
        samples = [samples[k * len(samples) // most] for k in range(most)]
    errors = {}
    for number, sample in enumerate(samples):
        errors.update(entry.errors(number, sample))
    line = make_recording(entry.name, dtype, folder, samples, skipped, iterations=3)
    if line["path"] and errors:
        pathlib.Path(line["path"]).with_suffix(".errors.json").write_text(json.dumps(errors))
    return line


def entries(options, _):
    warnings.simplefilter("ignore")
    if options.database == "optimizers":
        from torch.testing._internal.common_optimizers import optim_db

        return [OptimizerEntry(info) for info in optim_db]
    from torch.testing._internal.common_modules import module_db

    return [ModuleEntry(info) for info in module_db]


if __name__ == "__main__":
    main({"optimizers": entries, "modules": entries}, record)
