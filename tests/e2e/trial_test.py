"""Kernels that a compiler gets wrong, as a user meets them: each planted mistake is found before the kernel is used.

Environment: as e2e_test.py.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import e2e_test
import kept_store
from e2e_test import crucible

# A compiler that does to kernels what the file `plant` says, before it compiles them or by other flags. What stands
# before the first kernel is left alone; the file `planted` says that the kernels were changed. Its own file stays the
# same, so that the device's admission to strict numerics, which is kept by it, does too.
COMPILER = """#!{python}
import os, re, sys
arguments = sys.argv[1:]
plant = {{}}
exec(open({folder!r} + "/plant").read(), plant)
source = next((a for a in arguments if a.endswith(".c")), None)
is_careful = "-O1" in arguments
if source and not (is_careful and plant.get("spares_careful_ones")):
    text = open(source).read()
    start = text.find("\\nvoid k_")
    kernels = plant["edit"](text[start:]) if "edit" in plant else text[start:]
    if "edit" in plant and kernels != text[start:]:
        try:
            open({folder!r} + "/planted", "w").close()
        except PermissionError:  # in a sandbox
            pass
    open(source, "w").write(text[:start] + kernels)
    arguments = plant["flags"](arguments) if "flags" in plant else arguments
os.execvp("clang-19", ["clang-19", *arguments])
"""

PROGRAM = """
    import torch


    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.weight = torch.nn.Parameter(torch.randn(19))

        @torch.no_grad()
        def forward(self, x):
            shares = torch.softmax(x * self.weight - 1.5, 1)
            v = (x - 1)[:4, 3:6]
            products = v @ v.t()
            chosen = torch.where(x > 0.25, x * 3 - self.weight, torch.rsqrt(x * x + 1))
            return shares, products, chosen, chosen.to(torch.bfloat16)


    model = Small()
    for step in range(6):
        model(torch.randn(5, 19))
    """

OTHER_PROGRAM = """
    import torch

    model = torch.nn.Linear(3, 3)
    with torch.no_grad():
        for step in range(5):
            model(torch.ones(2, 3))
    """

# Name of the mistake: what the compiler does. Each changes one thing of one kernel, or gives clang one flag.
PLANTS = {
    "plus for minus": r'edit = lambda t: re.sub(r"\((v\d+) - (v\d+)\)", r"(\1 + \2)", t, count=1)',
    "the last turn of a loop is dropped": r'edit = lambda t: "< 18; ".join(t.rsplit("< 19; ", 1))',
    "the last item is dropped": r'edit = lambda t: t.replace("v0 < end;", "v0 < end - 1;", 1)',
    "a store is dropped": r'edit = lambda t: re.sub(r"\n *b4\[[^\n]*", "", t, count=1)',
    "an index is off by one": r'edit = lambda t: re.sub(r"= b1\[(v\d+)\];", r"= b1[\1 > 0 ? \1 - 1 : 0];", t, count=1)',
    "bf16 is cut off, not rounded":
        r'edit = lambda t: "\nstatic inline uint16_t cut_(float x) { return crucible_bits(x) >> 16; }"'
        r' + t.replace("crucible_f32_to_bf16(", "cut_(")',
    "a constant changes in its last place": r'edit = lambda t: t.replace("0x1.8p+1", "0x1.800002p+1", 1)',
    "less becomes less or equal": r'edit = lambda t: t.replace("0x1p-2 < v3", "0x1p-2 <= v3", 1)',
    "a function is off in its last place": r'edit = lambda t: re.sub(r"crucible_rsqrt_f32\((v\d+)\)", r"(crucible_rsqrt_f32(\1) * 0x1.000002p+0f)", t, count=1)',
    "a maximum becomes a minimum": r'edit = lambda t: re.sub(r"\((v\d+) > (v\d+) \? \1 : \2\)", r"(\1 > \2 ? \2 : \1)", t, count=1)',
    "a number is written behind a buffer": r'edit = lambda t: re.sub(r"\n}\n", "\n  b4[95] = 0;\n}\n", t, count=1)',
    "a sum starts with what lies there": r'edit = lambda t: re.sub(r"\n *a2\[v\d+\] = 0x0p\+0f;", "", t, count=1)',
    "products and sums are rounded once": r'flags = lambda a: [*a, "-ffp-contract=fast"]',
    "sums in another order, no NaN": r'flags = lambda a: [*a, "-ffast-math"]',
    # No plant: the pass that we switch off, as it is in LLVM 19 to 22.
    "LLVM's own mistake": r'flags = lambda a: [x for i, x in enumerate(a) if x != "-disable-vector-combine" and a[i + 1:i + 2] != ["-disable-vector-combine"]]',
}


class Trial(e2e_test.Folder):
    """Strict numerics, so that the product is a kernel too and every bit counts."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-trial-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        test = cls("setUpClass")
        done, cls.trace = test.record(PROGRAM, "--iterations", 2)
        assert done.returncode == 0, done.stderr
        cls.compiler = cls.folder / "compiler"
        cls.compiler.write_text(COMPILER.format(python=sys.executable, folder=str(cls.folder)))
        cls.compiler.chmod(0o755)
        cls.plant("")
        # A store whose compiler is admitted to strict numerics, and that has no kernel of the program yet.
        done, other = test.record(OTHER_PROGRAM, "--iterations", 1, name="other")
        assert done.returncode == 0, done.stderr
        assert test.replay(place="admitted", trace=other).returncode == 0
        right = test.replay()
        assert right.returncode == 0, right.stdout + right.stderr
        cls.right = json.loads(right.stdout)

    @classmethod
    def plant(cls, text):
        (cls.folder / "plant").write_text("import re\n" + text + "\n")
        (cls.folder / "planted").unlink(missing_ok=True)

    def replay(self, *options, place="kept", json_too=True, trial=True, trace=None):
        """`place`: the name of the store's folder."""
        return crucible(
            "replay", trace or self.trace, "--numerics", "strict", "--verify", *(["--json"] if json_too else []), "--set",
            f"backend.cpu.compiler={self.compiler}", *options, env={
                **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / place),
                "CRUCIBLE_KERNEL_TRIAL": str(trial).lower()
            })

    def admitted(self, name):
        """A place whose compiler is admitted to strict numerics, and that has no kernel of the program yet."""
        place = name.replace(" ", "-").replace("'", "").replace(",", "")
        shutil.copytree(self.folder / "admitted", self.folder / place)
        return place

    def test_what_is_right_passes_and_is_not_tried_again(self):
        trial = self.right["receipt"]["trial"]
        self.assertEqual((trial["on"], trial["kernels"], trial["tried"], trial["wrong"], trial["untried"]),
                         (True, 2, 2, [], []))
        again = json.loads(self.replay().stdout)
        self.assertEqual((again["receipt"]["trial"]["kernels"], again["receipt"]["trial"]["tried"]), (2, 0))
        self.assertIn("2 kernels against their interpreter, 0 of them now", self.replay(json_too=False).stdout)

    def test_every_planted_mistake_is_found_and_the_kernel_refused(self):
        for name, plant in PLANTS.items():
            if name == "LLVM's own mistake" and "avx512f" not in pathlib.Path("/proc/cpuinfo").read_text():
                continue  # it is one of vectors of 512 bits
            with self.subTest(name):
                self.plant(plant)
                done = self.replay(place=self.admitted(name))
                self.assertEqual((self.folder / "planted").exists(), "edit" in plant)
                if name == "LLVM's own mistake":  # less optimisation is right
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertEqual(len(json.loads(done.stdout)["receipt"]["trial"]["wrong"]), 1)
                    continue
                self.assert_refused(done, 4, "refuses 1 of 2 steps", "was compiled wrongly: ", "(Small)",
                                    "setUpClass.py:", "name another one")

    def test_what_is_right_with_less_optimisation_runs_and_the_receipt_says_so(self):
        place = self.admitted("careful")
        self.plant(PLANTS["plus for minus"] + "\nspares_careful_ones = True")
        done = self.replay(place=place)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["verified"], True)
        self.assertEqual(document["result_sha256"], self.right["result_sha256"])
        wrong, = document["receipt"]["trial"]["wrong"]
        self.assertIs(wrong["less_optimisation_helps"], True)
        self.assertIn("exp", wrong["ops"])
        self.assertIn("Small", wrong["ops"])
        self.assertIn(wrong["found"], done.stderr)
        self.assertIn(wrong["kernel"], " ".join(document["receipt"]["fallbacks"]))
        # The next start pays nothing, and says the same.
        again = json.loads(self.replay(place=place).stdout)["receipt"]["trial"]
        self.assertEqual((again["tried"], again["wrong"]), (0, document["receipt"]["trial"]["wrong"]))
        text = self.replay(place=place, json_too=False).stdout
        self.assertIn("1 wrong: 1 compiled again, 0 refused", text)

    def test_without_a_trial_the_mistake_is_not_seen(self):
        """So the tests above show what the trial finds, not something else."""
        place = self.admitted("off")
        self.plant(PLANTS["a constant changes in its last place"])
        document = json.loads(self.replay(place=place, trial=False).stdout)
        self.assertIs(document["receipt"]["trial"]["on"], False)
        self.assertNotEqual(document["outputs"], self.right["outputs"])

    def test_a_kernel_that_leaves_its_memory_is_named(self):
        """In the trial, where it comes first, in the replay, and behind the wall of a sandbox: an error, not a
        crash."""
        wild = r'edit = lambda t: re.sub(r"\n( *)b4\[", r"\n\1(b4 + (1ll << 34))[", t, count=1)'
        for trial, options in ((True, ()), (False, ()), (False, ("--sandbox",))):
            with self.subTest(trial=trial, options=options):
                place = self.admitted(f"wild-{trial}{len(options)}")
                if options:  # which keeps what it knows apart
                    shutil.copytree(self.folder / "admitted", self.folder / place / "confined")
                self.plant(wild)
                done = self.replay(*options, place=place, trial=trial)
                self.assertTrue((self.folder / "planted").exists() or options, done.stderr)
                self.assert_refused(done, 3, "the kernel of ", "left its memory (at 0x", "setUpClass.py:", "report it")

    def tried(self, place):
        return json.loads(self.replay(place=place).stdout)["receipt"]["trial"]["tried"]

    def test_a_verdict_that_is_damaged_counts_as_none(self):
        place = self.admitted("cut")
        self.plant("")
        before = {entry["key"] for entry in kept_store.entries(self.folder / place, "verdict")}
        self.replay(place=place)
        keys = sorted({entry["key"] for entry in kept_store.entries(self.folder / place, "verdict")} - before)
        self.assertEqual(len(keys), 2)
        first, second = (kept_store.file_of(self.folder / place, key) for key in keys)
        whole = first.read_bytes()
        for left in (b"", whole[:20], whole[:-2], whole + whole, second.read_bytes()):
            first.write_bytes(left)
            self.assertEqual(self.tried(place), 1, left[-20:])
            self.assertEqual(self.tried(place), 0, left[-20:])
        kept_store.change_evidence(self.folder / place, "verdict", lambda evidence: {})
        self.assertEqual(self.tried(place), 2)

    def test_verdicts_that_others_can_write_are_none(self):
        place = self.admitted("writable")
        self.plant("")
        self.replay(place=place)
        self.assertEqual(self.tried(place), 0)
        (self.folder / place).chmod(0o777)
        self.assertEqual(self.tried(place), 2)

    def test_a_binary_that_is_exchanged_is_tried_again(self):
        place = self.admitted("exchanged")
        self.plant("")
        self.assertEqual(json.loads(self.replay(place=place).stdout)["receipt"]["trial"]["tried"], 2)
        for entry in kept_store.entries(self.folder / place, "kernel"):
            kept_store.file_of(self.folder / place, entry["key"]).unlink()
        self.plant(PLANTS["plus for minus"])
        self.assert_refused(self.replay(place=place), 4, "was compiled wrongly: ")


if __name__ == "__main__":
    unittest.main()
