"""The page of a plan in a real browser: python plan_page_in_browser.py PLAN_REPORT_TEST CHROMIUM

Lets plan_report_test write the page of a made-up plan, adds a script that turns the wheel, drags, points, types and
presses keys, and compares what the page then shows with the plan. Runs where a Chromium is installed; looks at no
pixels.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPORT, CHROMIUM = sys.argv[1:3]
BUFFERS = 3000

DRIVER = """
<script>
const told = { errors: window.failures };
try {
  const over = document.getElementById("over"), box = over.getBoundingClientRect(), view = () => ({ ...plot.view });
  const left = Math.round(box.left), top = Math.round(box.top);  // events of the wheel have whole numbers
  const at = (x, y) => ({ clientX: left + x, clientY: top + y, pointerId: 1, bubbles: true, cancelable: true });
  const mouse = (type, x, y) => over.dispatchEvent(new PointerEvent(type, at(x, y)));
  const wheel = (x, y, turn, more) => over.dispatchEvent(new WheelEvent("wheel", { ...at(x, y), deltaY: turn, ...more }));
  const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
  over.setPointerCapture = () => {};
  told.start = view();
  const below = () => [plot.stepAt(left + 400 - box.left), plot.addressAt(top + 200 - box.top)];
  told.pointed = below();
  wheel(400, 200, -300);
  told.wheel = view();
  told.still = below();
  wheel(400, 200, -300, { shiftKey: true });
  told.shift = view();
  wheel(400, 200, -300, { altKey: true });
  told.alt = view();
  mouse("pointerdown", 400, 200); mouse("pointermove", 460, 240); mouse("pointerup", 460, 240);
  told.drag = view();
  key("0");
  told.reset = view();
  const wanted = [...plan.size.keys()].sort((a, b) => plan.size[b] - plan.size[a])[0];
  mouse("pointermove", plot.x((plan.begin[wanted] + plan.end[wanted]) / 2), plot.y(plan.offset[wanted] + plan.size[wanted] / 2));
  told.hover = [wanted, plot.hover];
  told.tip = document.getElementById("tip").textContent;
  told.name = plan.of("name", wanted);
  const middle = [plot.x((plan.begin[wanted] + plan.end[wanted]) / 2), plot.y(plan.offset[wanted] + plan.size[wanted] / 2)];
  mouse("pointerdown", ...middle); mouse("pointerup", ...middle);
  told.pinned = plot.pinned;
  const find = document.getElementById("find");
  find.value = "BLOCKS.3."; find.dispatchEvent(new Event("input"));
  told.found = [document.getElementById("found").textContent, plot.found.reduce((a, b) => a + b, 0),
    [...plan.size.keys()].filter((i) => plan.of("module", i).startsWith("blocks.3.")).length];
  key("Escape");
  told.let_go = [plot.pinned, find.value, plot.found];
  document.querySelector("#legend button").click();
  told.hidden = [...plot.hidden];
  told.sum = [plan.cut(plan.boundStep).sums.reduce((a, b) => a + b, 0), plan.bound];
  for (let i = 0; i < 40; ++i) wheel(400, 200, -3000);
  told.close = view();
  plot.drawBase(); plot.drawOver();
} catch (error) { told.errors.push(String(error)); }
const text = document.createElement("pre");
text.id = "told"; text.textContent = JSON.stringify(told);
document.body.append(text);
</script></body>"""
FAILURES = '<script>window.failures = []; onerror = (what) => { failures.push(String(what)); };</script><script type="application/json" id="data">'


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="crucible-page-")
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "plan.html"
        subprocess.run([REPORT, "--gtest_filter=PlanPage.ManyBuffersMakeASmallPage"], check=True, capture_output=True,
                       env={**os.environ, "CRUCIBLE_KEEP_PAGE": str(path), "CRUCIBLE_KEEP_BUFFERS": str(BUFFERS)})
        page = path.read_text(encoding="utf-8")
        path.write_text(
            page.replace('<script type="application/json" id="data">', FAILURES).replace("</body>", DRIVER),
            encoding="utf-8")
        done = subprocess.run([
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder.name}/profile",
            "--window-size=1400,900", "--dump-dom",
            path.as_uri()
        ], capture_output=True, text=True, timeout=120)
        found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
        assert found, done.stderr[-2000:]
        cls.told = json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def test_nothing_fails(self):
        self.assertEqual(self.told["errors"], [])

    def span(self, name):
        view = self.told[name]
        return view["x1"] - view["x0"], view["y1"] - view["y0"]

    def test_the_wheel_zooms_around_the_pointer(self):
        (x, y), (wheel_x, wheel_y), (shift_x, shift_y), (alt_x, alt_y) = map(self.span,
                                                                             ("start", "wheel", "shift", "alt"))
        self.assertAlmostEqual(wheel_x / x, wheel_y / y, 6)
        self.assertLess(wheel_x, 0.5 * x)
        for before, after in zip(self.told["pointed"], self.told["still"]):
            self.assertAlmostEqual(after / before, 1, 6)
        self.assertLess(shift_x, 0.5 * wheel_x)
        self.assertEqual(shift_y, wheel_y)
        self.assertEqual(alt_x, shift_x)
        self.assertLess(alt_y, 0.5 * shift_y)
        self.assertGreaterEqual(self.span("close")[0], 3.99)

    def test_dragging_moves_and_a_key_brings_all_back(self):
        self.assertLess(self.told["drag"]["x0"], self.told["alt"]["x0"])
        self.assertGreater(self.told["drag"]["y0"], self.told["alt"]["y0"])
        self.assertAlmostEqual(self.span("drag")[0], self.span("alt")[0], 6)
        self.assertEqual(self.told["reset"], self.told["start"])

    def test_the_pointer_names_a_buffer_and_a_click_pins_it(self):
        self.assertEqual(*self.told["hover"])
        for word in (self.told["name"], "module", "blocks.", "train.py:", "offset", "steps"):
            self.assertIn(word, self.told["tip"])
        self.assertEqual(self.told["pinned"], self.told["hover"][0])
        self.assertEqual(self.told["let_go"], [-1, "", None])

    def test_search_and_legend(self):
        text, marked, there = self.told["found"]
        self.assertEqual(marked, there)
        self.assertTrue(text.startswith(f"{there} of {BUFFERS:,}"), text)
        self.assertEqual(len(self.told["hidden"]), 1)

    def test_roles_add_up_to_the_lower_bound(self):
        self.assertEqual(*self.told["sum"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
