"""Which calls of modules without gradients are an evaluation, and which are part of every iteration: a teacher's, an
actor's, a target network's, those of a solver inside the forward pass. Told by how many there usually are.

An iteration with an evaluation inside is passed over. One that stands between two training steps is all that is left
out: with the first op that runs with gradients behind it a new iteration begins, kept where it has more than half of
the usual ops. What is left out is a seam, and what is taken for a part of its iteration makes that a variant: either is
replayed, so a doubt leaves nothing out.
"""

import statistics
import sys

MOST_COUNTS = 16


def is_inside_function():
    """Whether this runs in the forward or backward pass of a torch.autograd.Function: the framework runs those without
    gradients."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "apply" and code.co_filename.endswith("autograd/function.py"):
            return True
        frame = frame.f_back
    return False


class Evaluations:
    """Of one program, from its first iteration on."""

    def __init__(self, recorder):
        self._recorder = recorder
        self.passing_over = False
        self._left_out = 0  # evaluations behind which a new iteration began
        self._cuts = 0  # iterations that were ended for them: several where ops of an evaluation run with gradients on
        self._in_vain = 0  # of the iterations behind them: too little was left
        self._counted_for = None  # what ended iterations when they were counted
        self._counts = []  # of calls without gradients, in the latest iterations
        self._calls = 0  # of this iteration, with those of the evaluation before it
        self._calls_left_out = 0  # of these
        self._has_begun = False  # this iteration's training: a module was called with gradients on
        self._most_calls = None  # twice the median of them: an actor's episodes are not all of one length
        self._usual_ops = None  # of the latest kept iteration
        self._comes_after = False  # this iteration began behind an evaluation

    def add_call(self, gradients_on):
        if gradients_on:
            self._has_begun = True
        else:
            self._calls += 1

    @property
    def is_running(self):
        """Whether the calls of this iteration are many more than the usual one has."""
        return (not self.passing_over and self._most_calls is not None
                and self._calls - self._calls_left_out > self._most_calls)

    def pass_over(self):
        self.passing_over = True
        self._recorder.pass_over()
        if self._usual_ops is not None and not self._has_begun:
            self._recorder.watch_for_training(self._training_goes_on)

    def _training_goes_on(self):
        """Called before an op that runs with gradients on."""
        if not self.passing_over:
            return
        self.passing_over = False
        self._recorder.end_iteration()
        self._left_out += not self._comes_after
        self._cuts += 1
        self._comes_after = True
        self._calls_left_out = self._calls

    def count_calls(self, boundaries):
        """An iteration has ended, recorded or not."""
        counted_for = (boundaries.kind, boundaries.length)
        if self._counted_for != counted_for:
            # Where this iteration began is not known; what was taken for iterations before may be parts of one.
            self._counted_for = counted_for
            self._counts.clear()
        else:
            self._counts.append(self._calls)
            del self._counts[:-MOST_COUNTS]
        self._most_calls = 2 * statistics.median_low(self._counts) if self._counts else None
        self._calls = self._calls_left_out = 0
        self._has_begun = False

    def end_recorded(self):
        """A recorded iteration is about to end."""
        self._recorder.watch_for_training(None)
        ops = self._recorder.ops_of_iteration()
        if self._comes_after and not self.passing_over and 2 * ops <= self._usual_ops:
            self._recorder.pass_over()
            self._in_vain += 1
        elif not self.passing_over:
            self._usual_ops = ops
        self.passing_over = self._comes_after = False

    def forget(self):
        """Nothing is recorded any more."""
        self._recorder.watch_for_training(None)
        self.passing_over = self._comes_after = False
        self._usual_ops = None

    def begin_anew(self):
        """What was recorded is forgotten."""
        self._left_out = self._cuts = self._in_vain = 0

    def notes(self, passed_over):
        """`passed_over`: iterations, whatever they were, that are not in the file because of an evaluation."""
        notes = []
        between = self._left_out - self._in_vain
        if between > 0:
            notes.append(f"{between} evaluation{'s' if between > 1 else ''} between iterations left out")
        count = passed_over - self._cuts
        if count > 0:
            notes.append(f"{count} iteration{'s' if count > 1 else ''} with an evaluation inside passed over")
        return notes
