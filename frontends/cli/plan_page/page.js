// The page around the plot: figures, legend, search, tooltip, the panel beside it, pointer and keys. What stands behind "#" sets it
// up: #view=X0,X1,Y0,Y1 &find=TEXT &hover=ID &pin=ID &theme=dark &measure (moves the view and says how long frames take).

const el = (id) => document.getElementById(id);
const make = (tag, text, attributes = {}) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;  // never markup: names are a stranger's
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};
const dot = (role) => make("i", "", { class: "dot", style: "background:" + plan.roles[role].colour });

const plan = new Plan(JSON.parse(el("data").textContent));
for (const role of plan.roles) {  // white letters where the colour is dark
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(role.colour.slice(at, at + 2), 16));
  role.dark = .299 * r + .587 * g + .114 * b < 140;
}
const plot = new Plot(el("base"), el("over"), plan);

let dirty = 0, rest = 0;  // dirty: 1: over, 2: base with its sheet stretched, 3: all
function redraw(what) {
  if (!dirty) requestAnimationFrame(draw);
  dirty = Math.max(dirty, what);
}
function draw() {
  if (dirty > 1) plot.drawBase(dirty === 2);
  if (dirty === 2 && !rest) rest = setTimeout(() => { rest = 0; redraw(3); }, 100);  // a few times a second while it moves
  plot.drawOver();
  dirty = 0;
}

function showHead() {
  el("file").textContent = plan.file;
  const figure = (label, value) => { const span = make("span", label + " "); span.append(make("b", value)); return span; };
  el("figures").append(
    figure("peak", bytes(plan.peak)),
    figure("lower bound", bytes(plan.bound) + (plan.peak === plan.bound ? " (the plan is optimal)" : "")),
    figure("largest at step", plan.boundStep + " of " + plan.steps), figure("buffers", plan.count.toLocaleString("en")),
    make("span", plan.kernels));
}

function showLegend() {
  const atPeak = plan.cut(plan.boundStep).sums, there = new Set(plan.role);
  for (const turns of plan.turns.values()) turns.forEach((role, k) => { if (k % 2) there.add(role); });
  plan.roles.forEach((role, number) => {
    if (!there.has(number)) return;
    const button = make("button", undefined, { "aria-pressed": "true", title: "Alive at the peak; click to hide or show" });
    button.append(make("i", "", { style: "background:" + role.colour }), make("b", role.name), make("span", bytes(atPeak[number])));
    button.onclick = () => {
      const hide = !plot.hidden.has(number);
      if (hide) plot.hidden.add(number); else plot.hidden.delete(number);
      button.setAttribute("aria-pressed", String(!hide));
      redraw(3);
    };
    el("legend").append(button);
  });
}

/// What is known of a buffer, as rows.
function describe(i) {
  const roles = [];
  plan.eachTurn(i, (role, begin) => roles.push(plan.roles[role].name + (roles.length ? " from step " + begin : "")));
  const rows = [["role", roles.join(", ")], ["module", plan.of("module", i)], ["line", plan.of("site", i)],
    ["made by", plan.of("op", i)], ["size", bytes(plan.size[i]) + "  (" + plan.size[i].toLocaleString("en") + " bytes)"],
    ["offset", plan.offset[i].toLocaleString("en")], ["steps", plan.begin[i] + " to " + plan.end[i] + " of " + plan.times]];
  const list = make("dl");
  for (const [name, value] of rows) if (value) list.append(make("dt", name), make("dd", value));
  return list;
}

function showTip(px, py) {
  const tip = el("tip"), i = plot.hover;
  tip.hidden = i < 0;
  if (i < 0) return;
  const title = make("b", plan.of("name", i));
  tip.replaceChildren(dot(plan.roleAt(i, plot.step)), title, describe(i));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(0, px + 18 + box.width > plot.width ? px - 18 - box.width : px + 18) + "px";
  tip.style.top = Math.max(0, Math.min(py + 14, plot.tall - box.height - 4)) + "px";
}

/// The panel: what is pinned, then what is alive at the step under the pointer, or at the largest one.
function showSide() {
  const step = plot.step >= 0 ? Math.min(plot.step, plan.times - 1) : plan.boundStep, side = el("side"), parts = [];
  if (plot.pinned >= 0) {
    const section = make("section"), head = make("h2");
    head.append(dot(plan.role[plot.pinned]), plan.of("name", plot.pinned));
    section.append(head, describe(plot.pinned));
    parts.push(section);
  }
  const { sums, ids } = plan.cut(step), section = make("section"), most = Math.max(...sums, 1);
  const phase = step < plan.steps ? plan.phases[plan.phaseOf[step]] : "after the last step";
  section.append(make("h2", `Step ${step}: ${bytes(plan.live[step] || 0)} alive`), make("p", [phase, plan.ofStep("module", step)].filter(Boolean).join(" · ")));
  if (plan.ofStep("ops", step)) section.append(make("p", [plan.ofStep("ops", step), plan.ofStep("site", step)].filter(Boolean).join(" · ")));
  plan.roles.forEach((role, number) => {
    if (!sums[number]) return;
    const row = make("div", undefined, { class: "bar" });
    row.append(make("span", role.name), make("i", "", { style: `background:${role.colour};width:${100 * sums[number] / most}%` }), make("span", bytes(sums[number])));
    section.append(row);
  });
  parts.push(section);
  const list = make("ol"), largest = make("section");
  for (const i of ids.slice(0, 14)) {
    const button = make("button", undefined, { title: plan.of("name", i) });
    button.append(make("span", bytes(plan.size[i])), make("span", plan.of("name", i)));
    button.onclick = () => { plot.pinned = i; plot.step = step; showSide(); redraw(1); };
    const row = make("li");
    row.append(button);
    list.append(row);
  }
  largest.append(make("h2", `Largest of ${ids.length} buffers`), list);
  side.replaceChildren(...parts, largest);
}

let sideStep = -2, sideTimer = 0;
function sideSoon() {  // the panel is text: a few times a second is enough
  if (sideStep === plot.step || sideTimer) return;
  sideTimer = setTimeout(() => { sideTimer = 0; sideStep = plot.step; showSide(); }, 60);
}

function point(px, py) {
  const inside = px >= LEFT && px <= plot.right && py >= TOP && py <= plot.tall - AXIS;
  plot.step = inside ? Math.floor(plot.stepAt(px)) : -1;
  plot.hover = inside && py <= plot.bottom ? plan.at(plot.stepAt(px), plot.addressAt(py), (role) => plot.isShown(role)) : -1;
  showTip(px, py);
  sideSoon();
  redraw(1);
}

function zoom(factor, px, py, axes) {
  const v = plot.view, at = (low, high, middle) => [middle - (middle - low) * factor, middle + (high - middle) * factor];
  const view = { ...v };
  if (axes !== "y") [view.x0, view.x1] = at(v.x0, v.x1, plot.stepAt(px));
  if (axes !== "x") [view.y0, view.y1] = at(v.y0, v.y1, plot.addressAt(py));
  plot.limit(view);
  redraw(2);
}
const middle = () => [(LEFT + plot.right) / 2, (TOP + plot.bottom) / 2];
function move(dx, dy) {
  const v = plot.view, w = v.x1 - v.x0, h = v.y1 - v.y0;
  plot.limit({ x0: v.x0 + dx * w, x1: v.x1 + dx * w, y0: v.y0 + dy * h, y1: v.y1 + dy * h });
  redraw(2);
}
function zoomTo(i) {
  const w = plan.end[i] - plan.begin[i], h = plan.size[i];
  plot.limit({ x0: plan.begin[i] - w, x1: plan.end[i] + w, y0: plan.offset[i] - h, y1: plan.offset[i] + 2 * h });
  redraw(3);
}
function whole() { plot.whole(); redraw(3); }
function peak() {
  const w = Math.max(plan.times / 12, 20);
  plot.limit({ x0: plan.boundStep - w / 2, x1: plan.boundStep + w / 2, y0: 0, y1: plan.height * 1.03 });
  redraw(3);
}
function search(text) {
  plot.found = plan.find(text);
  let count = 0, total = 0;
  if (plot.found) for (let i = 0; i < plan.count; ++i) if (plot.found[i]) ++count, total += plan.size[i];
  el("found").textContent = plot.found ? `${count.toLocaleString("en")} of ${plan.count.toLocaleString("en")}, ${bytes(total)}` : "";
  redraw(3);
}
function theme(name) {
  document.documentElement.dataset.theme = name;
  plot.readColours();
  redraw(3);
}
const isDark = () => getComputedStyle(document.documentElement).colorScheme.includes("dark");

function listenToPointer() {
  const over = el("over");
  let from = null, moved = false;
  const place = (event) => { const box = over.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  over.onpointerdown = (event) => { from = { at: place(event), view: { ...plot.view } }; moved = false; over.setPointerCapture(event.pointerId); };
  over.onpointermove = (event) => {
    const [px, py] = place(event);
    if (!from) return point(px, py);
    const v = from.view, dx = (px - from.at[0]) / (plot.right - LEFT) * (v.x1 - v.x0), dy = (py - from.at[1]) / (plot.bottom - TOP) * (v.y1 - v.y0);
    if (Math.hypot(px - from.at[0], py - from.at[1]) > 4) moved = true;
    if (!moved) return;
    over.classList.add("drag");
    el("tip").hidden = true;
    plot.limit({ x0: v.x0 - dx, x1: v.x1 - dx, y0: v.y0 + dy, y1: v.y1 + dy });
    redraw(2);
  };
  over.onpointerup = (event) => {
    if (from && !moved) { point(...place(event)); plot.pinned = plot.hover; showSide(); redraw(1); }
    from = null;
    over.classList.remove("drag");
  };
  over.onpointercancel = () => { from = null; over.classList.remove("drag"); };
  over.onpointerleave = () => { if (!from) point(-1, -1); };
  over.ondblclick = (event) => { point(...place(event)); if (plot.hover >= 0) zoomTo(plot.hover); };
  over.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [px, py] = place(event), turn = event.deltaY || event.deltaX;
    zoom(Math.exp(Math.max(-1, Math.min(1, turn / 300))), px, py, event.shiftKey || py > plot.bottom ? "x" : event.altKey || px < LEFT ? "y" : "");
    point(px, py);
  }, { passive: false });
}

function listenToKeys() {
  const keys = {
    "0": whole, p: peak, d: () => theme(isDark() ? "light" : "dark"), "/": () => el("find").focus(),
    "+": () => zoom(.7, ...middle()), "=": () => zoom(.7, ...middle()), "-": () => zoom(1.4, ...middle()),
    ArrowLeft: () => move(-.15, 0), ArrowRight: () => move(.15, 0), ArrowUp: () => move(0, .15), ArrowDown: () => move(0, -.15),
    Escape: () => { plot.pinned = -1; el("find").value = ""; search(""); showSide(); el("plot").focus(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
    if (event.target === el("find") && event.key !== "Escape") return;
    event.preventDefault();
    keys[event.key]();
  });
  el("find").oninput = (event) => search(event.target.value);
  el("whole").onclick = whole;
  el("peak").onclick = peak;
  el("more").onclick = () => zoom(.7, ...middle());
  el("fewer").onclick = () => zoom(1.4, ...middle());
  el("theme").onclick = () => theme(isDark() ? "light" : "dark");
}

/// Moves, zooms and points for a while as a hand would; the milliseconds of the frames go to the title and to #found.
function measure() {
  const all = [], moving = [], over = [], sync = (canvas) => canvas.getContext("2d").getImageData(0, 0, 1, 1);  // waits until it is drawn
  const time = (work, canvas, into) => { const start = performance.now(); work(); sync(canvas); into.push(performance.now() - start); };
  for (let frame = 0; frame < 240; ++frame) {
    const part = Math.sin(frame / 12) / 2 + .5, w = plan.times * (.02 + .98 * part), h = plan.height * (.05 + .95 * part);
    plot.limit({ x0: (plan.times - w) * (frame % 60) / 60, x1: (plan.times - w) * (frame % 60) / 60 + w, y0: (plan.height - h) / 2, y1: (plan.height + h) / 2 });
    if (frame % 6 === 0) time(() => plot.drawBase(false), plot.base, all);
    else time(() => plot.drawBase(true), plot.base, moving);
    time(() => { point(LEFT + (frame * 37) % (plot.right - LEFT), TOP + (frame * 53) % (plot.bottom - TOP)); plot.drawOver(); }, plot.over, over);
  }
  const told = (list) => { list.sort((a, b) => a - b); return `median ${list[list.length >> 1].toFixed(1)} ms, worst ${list[list.length - 1].toFixed(1)} ms`; };
  document.title = el("found").textContent = `moving: ${told(moving)}; at rest: ${told(all)}; pointer: ${told(over)}`;
  whole();
}

function readHash() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.get("theme")) theme(wanted.get("theme"));
  const view = (wanted.get("view") || "").split(",").map(Number);
  if (view.length === 4 && view.every(Number.isFinite)) plot.limit({ x0: view[0], x1: view[1], y0: view[2], y1: view[3] });
  if (wanted.get("find")) { el("find").value = wanted.get("find"); search(wanted.get("find")); }
  const id = (name) => { const i = parseInt(wanted.get(name), 10); return i >= 0 && i < plan.count ? i : -1; };
  plot.pinned = id("pin");
  showSide();
  const i = id("hover");
  if (i >= 0) point(plot.x((plan.begin[i] + plan.end[i]) / 2), plot.y(plan.offset[i] + plan.size[i] / 2));
  if (wanted.has("measure")) measure();
  redraw(3);
}

plot.readColours();
showHead();
showLegend();
listenToPointer();
listenToKeys();
new ResizeObserver(() => { plot.resize(); dirty = 3; draw(); }).observe(el("plot"));  // at once: a canvas of a new size is empty
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { plot.readColours(); redraw(3); });
plot.resize();
readHash();
