"""What a program makes is on the test device unless it says otherwise."""

import apart  # noqa: F401
import torch

torch.set_default_device("apart")
