"""Which calls of modules without gradients are an evaluation, and which are part of every iteration: a teacher's, an
actor's, a target network's. Told by how many there usually are.

An iteration with an evaluation inside is passed over. One that stands between two training steps is all that is left
out: with the first op that runs with gradients a new iteration begins, and is kept where it has the usual ops.
"""

MOST_COUNTS = 16


class Evaluations:
    """Of one program, from its first iteration on."""

    def __init__(self, recorder):
        self._recorder = recorder
        self.passing_over = False
        self._cut = 0  # evaluations behind which a new iteration began
        self._in_vain = 0  # of these: it was another step than the others are
        self._counted_for = None  # what ended iterations when they were counted
        self._counts = []  # of calls without gradients, in the latest whole iterations
        self._calls = 0  # of this iteration
        self._usual_calls = None  # the most frequent count; of equally frequent ones the smallest
        self._usual_ops = None  # of the latest kept iteration
        self._comes_after = False  # this iteration began behind an evaluation

    def add_call(self):
        self._calls += 1

    @property
    def is_running(self):
        """Whether the calls of this iteration are more than the usual one has."""
        return not self.passing_over and self._usual_calls is not None and self._calls > self._usual_calls

    def pass_over(self):
        self.passing_over = True
        self._recorder.pass_over()
        if self._usual_ops is not None and not self._comes_after:
            self._recorder.watch_for_training(self._training_goes_on)

    def _training_goes_on(self):
        """Called before an op that runs with gradients on."""
        if not self.passing_over:
            return
        self.passing_over = False
        self._recorder.end_iteration()
        self._comes_after = True
        self._calls = 0
        self._cut += 1

    def count_calls(self, boundaries):
        """An iteration has ended, recorded or not."""
        counted_for = (boundaries.kind, boundaries.length)
        if self._counted_for != counted_for:
            # Where this iteration began is not known; what was taken for iterations before may be parts of one.
            self._counted_for = counted_for
            self._counts.clear()
        elif not self.passing_over:
            self._counts.append(self._calls)
            del self._counts[:-MOST_COUNTS]
        self._usual_calls = min(self._counts, key=lambda count: (-self._counts.count(count), count), default=None)
        self._calls = 0

    def end_recorded(self):
        """A recorded iteration is about to end."""
        self._recorder.watch_for_training(None)
        ops = self._recorder.ops_of_iteration()
        if self._comes_after and not self.passing_over and ops != self._usual_ops:
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
        self._cut = self._in_vain = 0

    def notes(self, passed_over):
        """`passed_over`: iterations, whatever they were, that are not in the file because of an evaluation."""
        notes = []
        between = self._cut - self._in_vain
        if between > 0:
            notes.append(f"{between} evaluation{'s' if between > 1 else ''} between iterations left out")
        count = passed_over - self._cut
        if count > 0:
            notes.append(f"{count} iteration{'s' if count > 1 else ''} with an evaluation inside passed over")
        return notes
