"""What the examples of `crucible.accelerate` print: the last values, the report, and both ways side by side."""

import statistics


def show(what, run):
    values, seconds, report = run
    print(f"{what} {values[0]:.6g} at first, {values[-1]:.6g} after {len(values)} steps; "
          f"{1e3 * middle(seconds):.3f} ms per step")
    if report is not None:
        print(report)


def middle(seconds):
    """Of the later half: the first steps are eager in any case."""
    return statistics.median(seconds[len(seconds) // 2:])


def compare(what, eager, accelerated):
    """`eager` and `accelerated` are (values, seconds of each step, report or None)."""
    show(what, eager)
    show(what, accelerated)
    gap = max((abs(a - b) / max(abs(a), 1e-12) for a, b in zip(eager[0], accelerated[0])), default=0.0)
    eager_ms, fast_ms = 1e3 * middle(eager[1]), 1e3 * middle(accelerated[1])
    print(f"\n{'steps':>6}  {'largest difference':>18}  {'eager ms':>9}  {'accelerated ms':>14}  gain")
    print(f"{len(eager[0]):6}  {gap:18.1e}  {eager_ms:9.3f}  {fast_ms:14.3f}  {eager_ms / fast_ms:.2f}")
    print(f"(difference: of a {what}, in relation to eager's; times: the middle ones of the later half)")
