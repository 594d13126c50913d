"""Cases of window functions of signals: every overload, lengths without a formula, all dtypes."""

import torch

from case_support import aten, case

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
WINDOWS = {
    "hann_window": (), "hann_window.periodic": (False,), "hamming_window": (), "hamming_window.periodic": (False,),
    "hamming_window.periodic_alpha": (True, 0.3), "hamming_window.periodic_alpha_beta": (False, 0.7, -0.2),
    "blackman_window": (), "blackman_window.periodic": (False,), "bartlett_window": (),
    "bartlett_window.periodic": (False,), "kaiser_window": (), "kaiser_window.periodic": (False,),
    "kaiser_window.beta": (True, 5.67)
}


def windows_of(op, arguments):
    packet, _, overload = op.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")
    for word, dtype in DTYPES.items():
        # One after the other: windows of no and of one element, and of two, three, many.
        case(op, word)(lambda d, dtype=dtype: torch.cat(
            [function(length, *arguments, dtype=dtype) for length in (0, 1, 2, 3, 8, 400)]))


for name, given in WINDOWS.items():
    windows_of(name, given)
