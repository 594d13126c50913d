#!/usr/bin/env python3
"""Runs attacks against a `crucible` and says which ones did harm: `run_attacks.py CRUCIBLE FOLDER... [--kind KIND]
[--only WORD] [--on DEVICE]`.

Each FOLDER has attacks.tsv: name of a file or of a folder, kind, demand, command. {f} is the file, {o} a file to write,
{good} a recording without fault, {torch} the folder of the plugin `torch` (skipped where it was not built); a folder is
copied and is the working folder ("cd=X ": X in it); links.tsv says which links it gets: folder, name, target (an
archive or a version control may not keep links). Exit code 1 when anything did harm.

Demands, beside those on everything (no end by a signal, 20 s of a processor, 2 GiB of the process and its children
together, exit code not 5):
  refuse      exit code 3, with one error in words
  loss=N      exit code 3, or a replay (--json) whose first loss is N: what lies outside was neither read nor written
  bounded     nothing more
  clean       nothing on a stream that a terminal takes for a command, and no line of the file's own making
  page        no element of the file's own making in the page that was written
  inert       no file OWNED appears, and the file victim.txt of the folder is as it was
  told        inert, and one line says that `crucible config trust` is what would allow it
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from crtrace_maker import Recording, T, floats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from devices_here import devices  # noqa: E402

SECONDS, BYTES = 20, 2 << 30
PAGE, TICKS = os.sysconf("SC_PAGESIZE"), os.sysconf("SC_CLK_TCK")
LOOK_S = 0.1
WAITS = 3  # times as long by the clock, for it may share its processor with others


def make_links(place, name, folder):
    """The links that a folder of attacks has; git, archives and patches may lose them."""
    table = pathlib.Path(place) / "links.tsv"
    for row in table.read_text().splitlines() if table.exists() else ():
        owner, link, target = row.split("\t")
        if owner == name:
            (folder / link).symlink_to(target)


def good_recording():
    t = Recording()
    x, y = t.tensor([64], external=floats(*range(64))), t.tensor([64])
    t.op("aten::neg(Tensor self) -> Tensor", [T(x)], [T(y)])
    t.loss(t.sum(y), -float(sum(range(64))))
    return t.data()


class Group:
    """The processes that one process starts. To look through all of the system's costs more than most attacks do: that is
    done ten times a second, the known ones are looked at each time."""

    def __init__(self, leader):
        self._leader, self._members = leader, [leader]
        self._look_at = time.monotonic() + LOOK_S

    def taken(self):
        """Bytes and seconds of processors of all of them, and of what they waited for."""
        now = time.monotonic()
        if now >= self._look_at:
            self._members = [int(name) for name in os.listdir("/proc") if name.isdigit()]
            self._look_at = now + LOOK_S
        resident, seconds, members = 0, 0.0, []
        for process in self._members:
            try:
                with open(f"/proc/{process}/stat", "rb") as stat:
                    fields = stat.read().rsplit(b")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) == self._leader:
                members.append(process)
                resident += int(fields[21]) * PAGE
                seconds += sum(map(int, fields[11:15])) / TICKS
        self._members = members
        return resident, seconds


def run(words, folder, environment, output):
    """(exit code or None, what ended it, most bytes, seconds)."""
    start, most, why = time.monotonic(), 0, ""
    process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                               stderr=output, start_new_session=True)
    group = Group(process.pid)
    while process.poll() is None:
        resident, worked = group.taken()
        most, waited = max(most, resident), time.monotonic() - start
        if most > BYTES:
            why = f"took {most >> 20} MiB"
        elif (waited > SECONDS and worked > SECONDS) or waited > WAITS * SECONDS:
            why = f"did not end in {waited:.0f} s, of which it had a processor for {worked:.0f}"
        if why:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None, why, most, time.monotonic() - start
        time.sleep(0.01)
    if process.returncode < 0:
        why = f"ended by {signal.Signals(-process.returncode).name}"
    elif process.returncode == 5:
        why = "exit code 5 (its own fault)"
    return process.returncode, why, most, time.monotonic() - start


COMMANDS_OF_TERMINALS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def stranger(text):
    found = COMMANDS_OF_TERMINALS.search(text)
    if found:
        return f"prints {found.group()!r} as it is"
    lines = [line for line in text.splitlines() if line.startswith("FORGED")]
    return "prints a line of the file's own making" if lines else ""


def judge(demand, code, text, page, folder, victim):
    if demand == "refuse" and code != 3:
        return f"exit code {code}, not refused"
    if demand.startswith("loss=") and code != 3:
        try:
            loss = json.loads(text[text.index("{"):])["iterations"][0]["loss"]
        except (ValueError, KeyError, IndexError):
            return f"exit code {code}, and no loss"
        wanted = float(demand[5:])
        if loss is None or abs(loss - wanted) > 1e-4 * max(1, abs(wanted)):
            return f"loss {loss}, not {wanted:g}: something else was read"
    if demand == "clean":
        return stranger(text) or stranger(page)
    if demand == "page" and re.search(r"<img src=x|</script><script>alert|<svg/onload", page):
        return "an element of the file's own making stands in the page"
    if demand in ("inert", "told"):
        if list(folder.rglob("OWNED")):
            return "ran code of the file's or folder's choice"
        if (folder / "victim.txt").exists() and (folder / "victim.txt").read_bytes() != victim:
            return "changed a file of the folder's choice"
    if demand == "told" and text.count("`crucible config trust ") != 1:
        return f"says {text.count('`crucible config trust ')} times, not once, what would allow it"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("crucible")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--kind", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument(
        "--on", default="", help=
        "a device by its name (\"opencl: PoCL\"), or reference: what is replayed on the CPU plugin is replayed there")
    given = parser.parse_args()
    given.crucible = os.path.abspath(given.crucible)
    here = devices(given.crucible) | {"reference": ["--backend", "reference"]} if given.on else {}
    on = here.get(given.on)
    if given.on and on is None:
        print(f"--on {given.on}: here are {', '.join(here)}", file=sys.stderr)
        return 4
    harm, count, kinds = [], 0, {}
    with tempfile.TemporaryDirectory() as temporary:
        base = pathlib.Path(temporary)
        (base / "home").mkdir()
        good = base / "good.crtrace"
        good.write_bytes(good_recording())
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("CRUCIBLE_", "XDG_")) or key == "CRUCIBLE_INTEL_OPENCL"
        }
        environment |= {"HOME": str(base / "home"), "NO_COLOR": "1"}
        if on:  # a driver starts cold, and a device is admitted to strict numerics once: no attack's time
            subprocess.run([given.crucible, "replay", good, "--numerics", "strict", *on], env=environment,
                           stdout=subprocess.DEVNULL, timeout=600, check=False)
        for place in given.folders:
            for row in (pathlib.Path(place) / "attacks.tsv").read_text().splitlines():
                name, kind, demand, command = row.split("\t")
                torch = pathlib.Path(given.crucible).resolve().parent / "torch"
                if given.kind not in ("", kind) or given.only not in row or ("{torch}" in command
                                                                             and not torch.is_dir()):
                    continue
                if on and (not command.startswith("replay {f}") or "--backend" in command or "--threads" in command
                           or "{torch}" in command):
                    continue
                command += "".join(f" {word}" for word in on or ())
                source, folder = pathlib.Path(place).resolve() / name, base / "work"
                shutil.rmtree(folder, ignore_errors=True)
                if source.is_dir():
                    shutil.copytree(source, folder, symlinks=True)
                    make_links(place, name, folder)
                    for text in folder.glob("*.c"):  # plugins and libraries of the folder's own
                        subprocess.run(["cc", "-shared", "-fPIC", "-o", text.with_suffix(".so"), text], check=True)
                else:
                    folder.mkdir()
                victim = (folder / "victim.txt").read_bytes() if (folder / "victim.txt").exists() else b""
                page, said = folder / "out", base / "said"
                inner, command = command.split(" ", 1) if command.startswith("cd=") else ("", command)
                words = [given.crucible, *command.format(f=source, o=page, good=good, torch=torch).split()]
                words = ["" if word == "''" else word for word in words]
                with open(said, "wb") as output:
                    code, why, most, seconds = run(words, folder / inner[3:], environment, output)
                text = said.read_text("utf-8", "replace")
                written = page.read_text("utf-8", "replace") if page.is_file() else ""
                why = why or judge(demand, code, text, written, folder, victim)
                count += 1
                good_of, all_of = kinds.get(kind, (0, 0))
                kinds[kind] = (good_of + (not why), all_of + 1)
                if why or given.verbose:
                    print(
                        f"{'HARM' if why else 'ok  '} {name}: {command}: {why or demand} [{code}, {seconds:.1f} s, {most >> 20} MiB]"
                    )
                if given.verbose:
                    print("      " + "\n      ".join(ascii(line)[1:-1][:300] for line in text.splitlines()[:6]))
                if why:
                    harm.append(name)
    print(f"{count - len(harm)} of {count} did no harm; " +
          ", ".join(f"{kind} {a}/{b}" for kind, (a, b) in sorted(kinds.items())))
    if count == 0:
        print("no attack is of that kind")
    return 1 if harm or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
