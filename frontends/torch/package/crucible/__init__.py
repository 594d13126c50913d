"""What a training script may say to Crucible. All of it does nothing unless the script runs under `crucible record`."""

import sys


def step():
    """Marks the end of one training iteration.

    Only programs whose iterations are not one `optimizer.step()` each need it (several optimizers, gradient accumulation,
    no torch.optim at all). Once it is called, optimizer steps are no longer taken for iteration ends.
    """
    recording = sys.modules.get("crucible_torch")
    if recording is not None:
        recording.explicit_step()
