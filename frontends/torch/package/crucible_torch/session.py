"""One recording inside the recorded process: when it starts, what it keeps, what is written and told at its end.

Where iterations end is decided in iterations.py from what watch.py sees. During the warm-up there are a few stand-ins
and nothing else; the kernels and the dispatch key exist only while iterations are recorded.
"""

from __future__ import annotations

import datetime
import fnmatch
import os
import signal
import sys
import threading
from typing import Any, Callable

from crucible_torch import build_info, processes
from crucible_torch.evaluations import Evaluations, is_inside_function
from crucible_torch.iterations import Boundaries, Verdict
from crucible_torch.leaving import Leaving
from crucible_torch.naming import Names, framework_name
from crucible_torch.outputs import named_tensors
from crucible_torch.paths import known_folders
from crucible_torch.precision import precision_of, settings_not_followed
from crucible_torch.versions import mismatch
from crucible_torch.watch import CAPTURES, Watch, frames_compiled, is_capturing

MOST_RESTARTS = 8


class Refusal(Exception):
    """This torch, this Python or this program cannot be recorded; the text says why."""


class Session:
    """`config`: what cmd_record.cpp or crucible.record() says; `report`: whom to tell (report.py)."""

    def __init__(self, config: dict[str, Any], torch: Any, report: Any) -> None:
        self._config = config
        self._torch = torch
        self._report = report
        self._recorder = None
        self.state = "waiting"  # waiting, recording, writing, off
        self._boundaries = Boundaries(torch, config.get("end_of_iteration", "auto"), "status" not in config,
                                      config["warmup"] > 0)
        self._watch = None
        self._leaving = None
        self._names = None
        self._frontend = ""
        self._thread = None  # the one that is recorded
        self._thread_trains = False  # it has made a step or a backward pass
        self._passed = 0  # iterations before the first recorded one
        self._kind = None  # what the boundaries were when recording began
        self._restarts = 0
        self._scouting = False
        self._backwards = 0
        self._gradients_on = True  # in the outermost module call that runs
        self._evaluations = None
        self._compiled_before = 0  # frames that torch.compile had looked at when this iteration began
        self._compiling = 0  # iterations passed over because it compiled
        self._answers = 0  # calls of outermost modules in this iteration whose outputs are kept
        self._pauses = 0
        self._looked_for_excluded = {}
        self._globs_that_matched = set()
        self._notes = []
        self._held = None  # what was told of a file of module calls, in a program that may yet train
        self._settings = set()  # of the program's that a replay does not follow, in words
        self._rank, self._world = None, 1
        self._output = config["output"]
        self._paths = None  # or what paths in the file are relative to
        self.process_id = os.getpid()
        self.gives_way: Callable[[], None] | None = None  # ends it, when the program wants to record itself

    def prepare(self):
        """Checks that this interpreter can be recorded and begins to watch. False: another process is recorded."""
        if not self._report.claim():
            return False
        problem = mismatch(self._torch)
        if not problem:
            try:
                from crucible_torch import _recorder
            except ImportError as error:
                problem = f"the recorder library cannot be loaded: {error}; build it again for this Python and torch"
        if problem:
            self.state = "off"
            self._report.tell("refused", message=problem)
            raise Refusal(problem)
        self._recorder = _recorder
        self._recorder.clear()  # a forked child has what its parent recorded
        if self._config.get("on_signal"):
            self._recorder.watch_signal(self._config["on_signal"], True)
        self._watch = Watch(_recorder, self._torch, self)
        self._leaving = Leaving(_recorder, self._torch)
        self._evaluations = Evaluations(_recorder)
        self._watch.install()
        self._report.tell("waiting", steps=0, ended=False)
        if self._boundaries.choice == "period":
            self._scout()
        return True

    def begin_in_block(self, thread: int) -> None:
        """The block of crucible.record() begins on this thread; without a warm-up, so does the first iteration."""
        self._thread, self._thread_trains = thread, True
        if self._config["warmup"] == 0 and self._boundaries.choice != "period":
            self._start()

    # What the program does

    def explicit_step(self):
        if self.state in ("waiting", "recording") and self._is_ours(True):
            self._judge(self._boundaries.explicit_step())

    def optimizer_steps(self, optimizer):
        if self._names is not None:
            self._names.add_optimizer(optimizer)

    def optimizer_stepped(self, optimizer, in_backward):
        if in_backward or self._is_ours(True):
            self._judge(self._boundaries.optimizer_stepped(optimizer, in_backward))

    def backward_ended(self):
        if not self._is_ours(True):
            return
        self._judge(self._boundaries.backward_ended())
        self._backwards += 1
        if self.state == "waiting" and not self._scouting and self._boundaries.may_have_no_marks(self._backwards):
            self._scout()

    def module_entered(self, module, gradients_on):
        if not self._is_ours():
            return
        self._gradients_on = gradients_on
        self._evaluations.add_call(gradients_on)
        if self.state != "recording":
            return
        if self._config.get("exclude_modules") and id(module) not in self._looked_for_excluded:
            self._look_for_excluded(module)
        if not gradients_on and self._is_evaluation():
            self._evaluations.pass_over()

    def module_left(self, module, result):
        if not self._is_ours() or self._held is not None and self._boundaries.kind == "module":
            return
        if self.state == "recording":
            self._boundaries.module_counts(module, self._gradients_on)
        if self.state == "recording" and self._is_inference():
            self._add_outputs(module, result)
        self._judge(self._boundaries.module_called(module))

    def excluded_runs(self, module):
        name = dict(
            (id(known), name) for known, name in self._names.add_root(module)).get(id(module),
                                                                                   type(module).__name__)
        for modules in self._looked_for_excluded.values():
            name = modules.get(id(module), name)
        self._give_up(
            f"the module {name} matches --exclude-module and runs with gradients, so its backward would be recorded "
            "without its forward; run it under torch.no_grad() or do not exclude it")

    def capture_begins(self):
        """What an op gives the device from here on does not run; copying bytes would break the capture."""
        if self.state == "recording" and not self.paused:
            self._give_up(CAPTURES)

    def graph_replayed(self):
        if self.state == "recording" and not self.paused:
            self._recorder.note_unseen("the replay of a captured graph", "the op that comes next")

    def _is_ours(self, trains=False):
        """Whether the calling thread is the one that is recorded: the first that trains, else the first that calls a
        module. A program may hand its modules to other threads, while steps and backward passes are one thread's."""
        thread = threading.get_ident()
        if self._thread is None or trains and not self._thread_trains and self.state == "waiting":
            self._thread, self._thread_trains = thread, trains
        return self._thread == thread

    def _is_evaluation(self):
        """A module called without gradients where the usual iteration calls none, or fewer."""
        return (self._boundaries.backward_seen and self._boundaries.kind in ("optimizer", "step")
                and self._evaluations.is_running and not is_inside_function())

    def _is_inference(self):
        """Whether what outermost modules give back is what the program is for: nothing else ends or trains it."""
        kind, trains = self._boundaries.kind, self._boundaries.backward_seen
        return not self._evaluations.passing_over and (kind == "module" or kind == "step" and not trains)

    def _look_for_excluded(self, root):
        found = {}
        self._looked_for_excluded[id(root)] = found
        for module, name in self._names.add_root(root):
            for glob in self._config["exclude_modules"]:
                if fnmatch.fnmatchcase(name, glob):
                    found[id(module)] = name
                    self._globs_that_matched.add(glob)
                    self._recorder.exclude(module)

    def _add_outputs(self, module, result):
        alone = self._boundaries.kind == "step" and self._answers == 0 or self._boundaries.length <= 1
        prefix = "" if alone else type(module).__name__ + "."
        self._answers += 1
        for name, tensor in named_tensors(result, self._torch):
            self._recorder.add_output(prefix + name, tensor)

    # Iterations

    def _scout(self):
        """Nothing says where iterations end: looks for what repeats in the ops themselves."""
        try:
            self._frontend = f"crucible {build_info.CRUCIBLE_VERSION}, {self._recorder.install('scout')}"
        except RuntimeError:
            return  # something else owns the fallback
        self._scouting = True
        self._recorder.scout(self._scouted, self._first_iteration() - 1, self._boundaries.backward_seen)

    def _scouted(self, event):
        """Called from inside the op that comes next."""
        if event == "boundary":
            self._judge(self._boundaries.period_ended(self._first_iteration() - 1))
        elif self.state == "recording":
            self._begin_anew(keeps=event == "broken")

    def _stop_scouting(self):
        if self._scouting:
            self._scouting = False
            self._recorder.scout(None, 0)
            if self.state != "recording":
                self._recorder.uninstall()

    def _judge(self, verdict):
        if self._scouting and self._boundaries.kind not in (None, "period"):
            if self.state == "recording":
                self._begin_anew()
            self._stop_scouting()
        if self.state == "recording" and verdict == Verdict.BROKEN:
            if self._recorder.measures()["complete_iterations"] >= 2 and self._boundaries.go_on_by_steps():
                verdict = Verdict.END
            else:
                self._begin_anew()
        if verdict == Verdict.END or verdict == Verdict.BROKEN and self._boundaries.at_end:
            self._end_iteration()

    def _end_iteration(self):
        self._evaluations.count_calls(self._boundaries)
        self._answers = 0
        if self.state == "waiting":
            if self._is_time():
                self._start()
        elif self.state == "recording":
            self._evaluations.end_recorded()
            self._kind = self._kind or self._boundaries.kind
            if frames_compiled() != self._compiled_before:
                self._compiled_before = frames_compiled()
                self._compiling += 1
                self._recorder.pass_over()  # the ops are those of the compiler's work too
            self._after_recorded_iteration(self._recorder.end_iteration())

    def _first_iteration(self):
        return self._config.get("start_step") or self._config["warmup"] + 1

    def _is_time(self):
        first = self._first_iteration()
        signal_number = self._config.get("on_signal")
        return (self._boundaries.passed >= first - 1 and self._boundaries.settled and not is_capturing(self._torch)
                and (not signal_number or self._recorder.signal_arrived(signal_number)))

    def _after_recorded_iteration(self, kept):
        measures = self._recorder.measures()
        self._settings |= settings_not_followed(self._torch, self._recorder)
        done, wanted = measures["complete_iterations"], self._config["iterations"]
        if not kept:
            self._finish(f"recording was switched off inside iteration {done} by code that restores the thread's state")
        elif self._runs_compiled_code():
            self._give_up("the program runs kernels that torch.compile made, which are not operators; "
                          "record it without torch.compile or with backend='eager'")
        elif measures["failure"]:
            self._finish_early(measures["failure"])
        elif done == wanted:
            self._finish("")
        elif self._recorder.signal_arrived(signal.SIGINT):
            self._finish_early("the program was interrupted (SIGINT) and went on")
        elif self._is_too_large(measures):
            self._finish_early(f"the recording has reached --max-bytes {self._config['max_bytes']}")

    def _is_too_large(self, measures):
        limit = self._config.get("max_bytes")
        return bool(limit) and measures["log_bytes"] + measures["copied_bytes"] > limit

    def _begin_anew(self, keeps=True):
        """What was recorded are no iterations: forgets it, unless (`keeps`) it held for some of them."""
        done = self._recorder.measures()["complete_iterations"]
        enough = 1 if self._kind == "period" else 2
        is_last = self._restarts >= MOST_RESTARTS and not self._boundaries.count_each()
        if keeps and self._kind == self._boundaries.kind and (done >= enough or is_last):
            return self._finish_early("the order of what repeats changed" + (" after them" if done else " each time"))
        self._leave()
        self._recorder.clear()
        self._restarts += 1
        self._names = None
        self._evaluations.begin_anew()
        self.state = "waiting"

    def _runs_compiled_code(self):
        cache = sys.modules.get("torch._inductor.codecache")
        return bool(cache is not None and getattr(cache.PyCodeCache, "modules", None))

    def _start(self):
        try:
            self._install()
        except RuntimeError as error:
            self._give_up(f"the recorder's kernels cannot be registered: {error}")
            return
        self._name_output()
        if self._config.get("no_paths"):
            self._paths = known_folders()
        self._names = Names(self._recorder, self._torch)
        self._looked_for_excluded.clear()
        self._watch.watch_phases()
        self._pauses = 0
        self._compiled_before = frames_compiled()
        self._kind, self._passed = self._boundaries.kind, self._boundaries.passed
        try:
            self._recorder.stream_to(*self._file_arguments(""))  # each iteration is on disk when it is complete
        except RuntimeError as error:
            self._leave_for_good()
            self._fail("failed", str(error))
            self._forget()
            return
        self._recorder.watch_signal(signal.SIGINT, False)
        self._report.tell("recording")
        self.state = "recording"
        folders = [os.path.dirname(self._torch.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep]
        self._recorder.snapshot_ops(self._config.get("snapshot") == "ops")
        if self._config.get("leave_out"):
            self._recorder.leave_out()
        self._leaving.install()
        self._recorder.start(self._watch.module_call, folders, self._names.add_root,
                             self._config.get("read_frames", True))

    def _name_output(self):
        self._rank, self._world = processes.rank_and_world(self._torch)
        if self._config.get("several"):
            part = f"process{self._report.process}" if self._report.process else ""
            part = f"rank{self._rank}" if self._rank is not None else part
            self._output = processes.name_of_part(self._config["output"], part) if part else self._config["output"]

    def _install(self):
        if self._recorder.joined_threads() > 0 or self._scouting:
            return  # a thread that waits to be recorded has installed them, or the scout
        wanted = self._config.get("kernels", "typed")
        reason = "the self test saw no op on any path"
        for kernels in dict.fromkeys((wanted, "per_op", "record_function")):
            try:
                installed = self._recorder.install(kernels)
            except RuntimeError as error:  # the dispatcher refuses: the next path may need less of it
                reason = str(error)
                continue
            if self._recorder.self_test():
                self._frontend = f"crucible {build_info.CRUCIBLE_VERSION}, {installed}"
                return
            self._recorder.uninstall()
        raise RuntimeError(reason)

    # Threads and phases of the program's own

    def join_thread(self):
        """Records the calling thread as well. True when it did."""
        if self.state not in ("waiting", "recording") or threading.get_ident() == self._thread:
            return False
        if self.state == "waiting" and self._recorder.joined_threads() == 0:
            self._install()  # ops pass by until recording starts
        self._recorder.join_thread()
        return True

    def leave_thread(self):
        self._recorder.leave_thread()
        if self.state == "off" and self._recorder.joined_threads() == 0:
            self._recorder.uninstall()

    def set_phase(self, phase):
        """Says what runs now; returns what ran before."""
        return self._recorder.set_phase(phase) if self.state == "recording" else None

    def enter_input(self):
        """What the thread does makes data, until the function that comes back is called; None: nobody records."""
        if self.state not in ("waiting", "recording"):
            return None
        self._recorder.enter_input()
        return self._recorder.leave_input

    def pause(self):
        if self.state != "recording" or not self._is_ours():
            return False
        self._recorder.pause()
        self._pauses += 1
        return True

    def resume(self):
        if self.state == "recording" and self._pauses > 0:
            self._pauses -= 1
            self._recorder.resume()

    def take_over(self):
        """In a pause between two iterations: the calling thread is the one that is recorded from now on."""
        self._thread = threading.get_ident()
        self._recorder.take_over()

    @property
    def paused(self):
        return self._pauses > 0 or self._evaluations.passing_over

    # The end

    def _leave(self):
        """Switches everything off that recording has switched on; the watch stays."""
        self._evaluations.forget()
        self._recorder.stop()
        self._leaving.remove()
        self._recorder.unwatch_signal(signal.SIGINT)
        if self._recorder.joined_threads() == 0 and not self._scouting:
            self._recorder.uninstall()  # a thread with the key on and no kernels could not run a single op
        self._watch.leave_phases()

    def _leave_for_good(self):
        if self._scouting:
            self._scouting = False
            self._recorder.scout(None, 0)
        self._leave()
        self._watch.remove()
        if self._config.get("on_signal"):
            self._recorder.unwatch_signal(self._config["on_signal"])

    def _finish_early(self, why):
        done, wanted = self._recorder.measures()["complete_iterations"], self._config["iterations"]
        if done > 0:
            self._finish(f"recorded {done} of {wanted} iterations: {why}")
        else:
            self._give_up(f"no iteration was recorded whole: {why}{self._what_ends_iterations()}")

    def _what_ends_iterations(self):
        """What to do, where nothing has ended an iteration since the recording began."""
        boundaries = self._boundaries
        if boundaries.events > 0 or "status" in self._config:
            return ""
        if boundaries.choice == "step":
            return "; call crucible.step() at the end of each iteration"
        if boundaries.choice == "auto":
            return (
                "; nothing in it ended an iteration: call crucible.step() at the end of each, or give end_of_iteration='module' where each "
                "call of a module is one")
        return ""

    def _finish(self, reason):
        """Writes the complete iterations; `reason` says why some are missing."""
        self.state = "writing"
        self._leave_for_good()
        config = self._config
        try:
            self._names.name_final()
            measures = self._recorder.measures()
            for setting in sorted(self._settings):
                self._recorder.note_setting("the setting " + setting)
            summary = self._recorder.write(*self._file_arguments(reason))
            self._add_notes(measures)
            if summary["values_returned"]:
                self._notes.append(summary["values_returned"])
            told = {
                "bytes": os.path.getsize(self._output), "incomplete": [reason] if reason else [], "path": self._output,
                "frontend": self._frontend, "measures": measures, "notes": self._notes, "rank": self._rank,
                "world_size": self._world, "end_of_iteration": self._kind, **summary
            }
            self._report.tell("written", **told)
            if self._may_train_yet(reason):
                return self._wait_for_training(told)
        except (RuntimeError, OSError, MemoryError) as error:
            self._fail("failed", str(error))
        self._forget()

    def _may_train_yet(self, reason):
        """Calls of modules have been taken for iterations: they may have made data, or tried a teacher, for training
        that has not begun."""
        return (self._kind == "module" and not reason and self._boundaries.choice == "auto" and self._held is None
                and "status" in self._config and not self._config.get("on_signal"))

    def _wait_for_training(self, told):
        """The file is there. Should a step or a backward pass come after all, its iterations take the file's place."""
        self._held = told
        self._recorder.clear()
        self._names, self._kind, self._restarts = None, None, 0
        self._watch.install()
        self.state = "waiting"

    def _fail(self, state, message):
        """Nothing was recorded, or what was recorded first is what there is."""
        if self._held is None:
            return self._report.tell(state, message=message)
        notes = [*self._held["notes"], f"the program trained afterwards, and that was not recorded: {message}"]
        self._report.tell("written", **{**self._held, "notes": notes})

    def _file_arguments(self, reason):
        """What the extension wants to know of a file: its path and metadata."""
        return (self._output, framework_name(self._torch), self._frontend, self._config["command"],
                datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), reason, self._passed,
                -1 if self._rank is None else self._rank, self._world, self._paths, precision_of(self._torch))

    def _add_notes(self, measures):
        if self._held is not None:
            count = self._held["iterations"]
            self._notes.append(
                f"{count} call{'s' if count > 1 else ''} of a module before the program trained had been recorded first; "
                "--end-of-iteration module records such calls")
        if self._compiling:
            self._notes.append(
                f"{self._compiling} iteration{'s' if self._compiling > 1 else ''} in which torch.compile compiled passed over"
            )
        if self._boundaries.counts_each:
            what = "steps" if self._kind == "optimizer" else "calls of modules"
            self._notes.append(f"the order of the program's {what} does not repeat: each was taken for an iteration")
        self._notes += self._evaluations.notes(measures["passed_over"] - self._compiling)
        if measures["wait_ns"] > 100_000_000:
            count = measures["waits"]
            self._notes.append(
                f"the program waited {count} time{'s' if count > 1 else ''}, {measures['wait_ns'] / 1e9:.1f} s in all, "
                "for iterations to be written")
        for glob in self._config.get("exclude_modules", ()):
            if glob not in self._globs_that_matched:
                self._notes.append(f"no module matched --exclude-module {glob}")

    def _give_up(self, message):
        self._leave_for_good()
        self._fail("refused", message)
        self._forget()

    def _forget(self):
        self.state = "off"
        self._recorder.clear()
        self._names = None
        descriptor = self._config.get("lock_descriptor", -1)
        if descriptor >= 0:
            self._config["lock_descriptor"] = -1
            try:
                os.close(descriptor)
            except OSError:
                pass

    def end(self, why: str | None = None) -> None:
        """The program or the block ends: writes what is complete. `why`: in words; by default how the program ended."""
        if os.getpid() != self.process_id:
            return
        if self.state == "waiting" and self._held is not None:
            self._leave_for_good()
            if self._boundaries.kind != "module":
                self._fail("written", "fewer iterations than the warm-up takes")
            self._forget()
        elif self.state == "waiting":
            boundaries = self._boundaries
            self._leave_for_good()
            self._report.tell(
                "waiting", steps=boundaries.passed, ended=True, events=boundaries.events, kind=boundaries.kind,
                waits_for=boundaries.waits_for, backward=boundaries.backward_seen, raised=processes.what_it_raised(),
                signal_missing=bool(self._config.get("on_signal"))
                and not self._recorder.signal_arrived(self._config["on_signal"]))
            self.state = "off"
        elif self.state in ("recording", "writing"):
            self._finish_early(why or processes.what_it_raised() or "the program ended")

    def hand_over(self) -> bool:
        """The process becomes another program: what is complete is written; where nothing is, that program is
        recorded."""
        if os.getpid() != self.process_id:
            return False
        if self.state == "recording":
            self.end("the program became another one (os.exec)")
        elif self.state == "waiting" and self._held is None:
            return self._report.give_back()
        return False

    def take_back(self) -> None:
        """It did not become another program."""
        if self.state == "waiting" and self._held is None and self._report.claim():
            self._report.tell("waiting", steps=0, ended=False)

    def forget_in_child(self):
        """A forked worker (of a DataLoader, say) must neither record nor write."""
        if self._recorder is not None:
            self._recorder.forget_input()
        if self._scouting:
            self._recorder.scout(None, 0)
        if self.state == "recording":
            self._recorder.stop()
            self._leaving.remove()
        if self.state != "off" and self._watch is not None:
            self._watch.remove()
        self.state = "off"
