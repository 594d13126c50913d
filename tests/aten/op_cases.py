"""One case per op of the lowering table: run under `crucible record`, it leaves each result in a buffer of its own.

Every case calls its op by name and overload; the files cases_*.py have them, case_support.py what they are written
with.
With --list it prints the names. CRUCIBLE_CASES=REGEX chooses ops by name.
"""

import sys
import zlib

import torch

import cases_attention  # noqa: F401: its cases
import cases_basic  # noqa: F401
import cases_batch_norm  # noqa: F401
import cases_bits  # noqa: F401
import cases_complex  # noqa: F401
import cases_convolution  # noqa: F401
import cases_elementwise  # noqa: F401
import cases_image  # noqa: F401
import cases_index  # noqa: F401
import cases_linalg  # noqa: F401
import cases_masks  # noqa: F401
import cases_pool  # noqa: F401
import cases_quantization  # noqa: F401
import cases_reduce  # noqa: F401
import cases_signal  # noqa: F401
import cases_sparse  # noqa: F401
import cases_sparse_matrix  # noqa: F401
import cases_training  # noqa: F401
import cases_unusual  # noqa: F401
import cases_vision  # noqa: F401
from case_support import CASES, Data, flat


class Cases(torch.nn.Module):
    """Runs every case and keeps each result in a buffer named case_NUMBER_RESULT."""

    def __init__(self):
        super().__init__()
        # By name, so that a case has the same numbers when others have come before it.
        self.data = [Data(zlib.crc32(f"{name} {variant}".encode())) for name, variant, _ in CASES]
        for number, (name, variant, function) in enumerate(CASES):
            for k, result in enumerate(flat(function(self.data[number]))):
                self.register_buffer(f"case_{number}_{k}", torch.full_like(result, 77).contiguous())

    def forward(self, step):
        for number, (_, _, function) in enumerate(CASES):
            self.data[number].rewind(step)
            for k, result in enumerate(flat(function(self.data[number]))):
                getattr(self, f"case_{number}_{k}").copy_(result)


def main():
    if "--list" in sys.argv:
        for name, variant, _ in CASES:
            print(f"{name}\t{variant}")
        return
    import crucible

    with torch.no_grad():
        model = Cases()
        for step in range(4):
            model(step)
            crucible.step()


if __name__ == "__main__":
    main()
