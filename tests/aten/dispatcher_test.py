"""Every operator that the framework has a kernel for is lowered, needs none, or is refused by name with a reason.

The list is the dispatcher's own: the installed build is the one for CUDA, whose operators are registered without a
device. Needs torch and the reference interpreter (environment CRUCIBLE_REFERENCE).
"""

import os
import subprocess
import unittest

import torch

REFERENCE = os.environ.get("CRUCIBLE_REFERENCE", "crucible_reference")

# Where a kernel is registered that a recording meets: of a device, or composed of others below autograd.
KEYS = ("CPU", "CUDA", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "QuantizedCPU", "QuantizedCUDA",
        "NestedTensorCPU", "NestedTensorCUDA", "MkldnnCPU", "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional")
DEVICE_KEYS = ("CUDA", "SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA", "NestedTensorCUDA")


def has(name, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def operator(name):
    packet, _, overload = name.removeprefix("aten::").partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:
        return None


def needs_nothing(name):
    """Its results are drawn and enter as recorded, or it neither gives nor writes a tensor."""
    op = operator(name)
    if op is None:
        return False
    schema = op._schema
    tensors = any("Tensor" in str(r.type) for r in schema.returns) or any(
        a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    draws_inside = any(a.name == "dropout_p" for a in schema.arguments)
    return not tensors or (torch.Tag.nondeterministic_seeded in op.tags and not draws_inside)


def ask(*arguments, names=()):
    done = subprocess.run([REFERENCE, *arguments], input="".join(f"{name}\n" for name in names), capture_output=True,
                          text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


class Dispatcher(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = sorted(
            name for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and not has(name, "CompositeImplicitAutograd") and any(has(name, key)
                                                                                               for key in KEYS))
        cls.rest = [name for name in cls.names if not needs_nothing(name)]
        cls.answers = {line[0]: line[1:] for line in ask("--support", names=cls.rest)}

    def test_the_list_is_the_one_for_cuda(self):
        if torch.version.cuda is None:
            self.skipTest("this build of the framework has no operators of CUDA's")
        alone = [name for name in self.names if has(name, "CUDA") and not has(name, "CPU")]
        self.assertGreater(len(alone), 100)
        self.assertIn("aten::_cudnn_rnn", alone)
        self.assertGreater(len(self.rest), 1500)

    def test_every_operator_is_lowered_or_refused_by_name(self):
        self.assertEqual([name for name in self.rest if self.answers[name][0] == "unknown"], [])

    def test_refusals_say_why(self):
        for name, answer in self.answers.items():
            if answer[0] == "refused":
                self.assertGreater(len(answer[2]), 20, name)

    def test_no_refusal_is_left_of_what_is_lowered_now(self):
        used = {answer[1] for answer in self.answers.values() if answer[0] == "refused"}
        others = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
        used |= {line[2] for line in ask("--support", names=others) if line[1] == "refused"}
        self.assertEqual(sorted({line[0] for line in ask("--refusals")} - used), [])

    def test_most_of_what_only_a_device_has_is_lowered(self):
        """Figures for whoever changes the table: what is refused of the kernels of CUDA's builds."""
        device = [name for name in self.rest if any(has(name, key) for key in DEVICE_KEYS)]
        refused = [name for name in device if self.answers[name][0] == "refused"]
        print(f"{len(device) - len(refused)} of {len(device)} operators with a kernel for a device are lowered")
        self.assertLess(len(refused), len(device) // 10, refused)


if __name__ == "__main__":
    unittest.main(verbosity=2)
