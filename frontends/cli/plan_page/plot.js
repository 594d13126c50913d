// Draws the plan: buffers as rectangles, the phases and the bytes alive below them, axes. Two canvases: `base` is drawn when the
// view changes, `over` (outlines, the step under the pointer) with each move of the pointer. The rectangles are drawn on a `sheet`
// of their own: while the view moves over many of them the sheet is only stretched, and drawn anew when it rests.

const LEFT = 76, TOP = 8, RIGHT = 10, STRIP = 17, CURVE = 86, AXIS = 20, GAP = 7;
const MANY = 4000;  // buffers: more are not drawn anew in every frame
const PHASE_COLOURS = ["#3f8fd2", "#e08a2e", "#8a63b8"];

/// Round steps of an axis: about `wanted` of them over `span`; bytes go by powers of two.
function tickStep(span, wanted, isBytes) {
  const rough = span / wanted;
  if (isBytes) return Math.max(256, 2 ** Math.ceil(Math.log2(Math.max(rough, 1))));
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= rough) return Math.max(1, power * factor);
  return Math.max(1, power * 10);
}

class Plot {
  constructor(base, over, plan) {
    Object.assign(this, { base, over, plan, sheet: document.createElement("canvas"), sheetView: null, hidden: new Set(), found: null, hover: -1, pinned: -1, step: -1 });
    this.whole();
    this.resize();
  }

  whole() { this.view = { x0: 0, x1: this.plan.times, y0: 0, y1: this.plan.height * 1.03 }; }

  /// Keeps the view inside the plan and not smaller than something to look at.
  limit(view) {
    const clampAxis = (a, b, least, most) => {
      let span = Math.min(Math.max(b - a, least), most);
      const low = Math.min(Math.max(a, 0), most - span);
      return [low, low + span];
    };
    [view.x0, view.x1] = clampAxis(view.x0, view.x1, Math.min(4, this.plan.times), this.plan.times);
    [view.y0, view.y1] = clampAxis(view.y0, view.y1, Math.min(1024, this.plan.height), this.plan.height * 1.03);
    this.view = view;
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.base.parentElement.getBoundingClientRect();
    this.width = Math.max(box.width, 200);
    this.tall = Math.max(box.height, 200);
    this.ratio = ratio;
    for (const canvas of [this.base, this.over, this.sheet]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.tall * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.bottom = this.tall - AXIS - CURVE - STRIP - 2 * GAP;  // of the buffers
    this.right = this.width - RIGHT;
  }

  readColours() {
    const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue("--" + name).trim();
    this.colour = {};
    for (const name of ["paper", "ink", "quiet", "line", "grid", "mark", "bound", "area", "label"]) this.colour[name] = of(name);
  }

  x(step) { return LEFT + (step - this.view.x0) / (this.view.x1 - this.view.x0) * (this.right - LEFT); }
  y(address) { return this.bottom - (address - this.view.y0) / (this.view.y1 - this.view.y0) * (this.bottom - TOP); }
  stepAt(px) { return this.view.x0 + (px - LEFT) / (this.right - LEFT) * (this.view.x1 - this.view.x0); }
  addressAt(py) { return this.view.y0 + (this.bottom - py) / (this.bottom - TOP) * (this.view.y1 - this.view.y0); }
  isShown(role) { return !this.hidden.has(role); }

  /// `isMoving`: with the sheet as it is, when there are many buffers.
  drawBase(isMoving) {
    const g = this.base.getContext("2d");
    if (!isMoving || this.plan.count <= MANY || !this.sheetView) this.drawSheet();
    g.clearRect(0, 0, this.width, this.tall);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    this.drawGrid(g);
    g.save();
    g.beginPath();
    g.rect(LEFT, TOP, this.right - LEFT, this.bottom - TOP);
    g.clip();
    const s = this.sheetView, k = this.ratio, left = this.x(s.x0), top = this.y(s.y1);
    g.imageSmoothingEnabled = false;
    g.drawImage(this.sheet, LEFT * k, TOP * k, (this.right - LEFT) * k, (this.bottom - TOP) * k, left, top, this.x(s.x1) - left, this.y(s.y0) - top);
    this.drawLines(g);
    g.restore();
    this.drawStrip(g);
    this.drawCurve(g);
  }

  drawSheet() {
    const g = this.sheet.getContext("2d");
    g.clearRect(0, 0, this.width, this.tall);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    this.sheetView = { ...this.view };
    this.drawBuffers(g);
  }

  drawGrid(g) {
    const { x0, x1, y0, y1 } = this.view;
    g.strokeStyle = this.colour.grid;
    g.fillStyle = this.colour.quiet;
    g.lineWidth = 1;
    g.textBaseline = "middle";
    g.textAlign = "right";
    const dy = tickStep(y1 - y0, Math.max(2, (this.bottom - TOP) / 64), true);
    for (let at = Math.ceil(y0 / dy) * dy; at <= y1; at += dy) {
      const y = Math.round(this.y(at)) + .5;
      g.beginPath(); g.moveTo(LEFT, y); g.lineTo(this.right, y); g.stroke();
      g.fillText(at === 0 ? "0" : bytes(at), LEFT - 8, Math.max(y, TOP + 6));
    }
    g.textAlign = "center";
    g.textBaseline = "alphabetic";
    const dx = tickStep(x1 - x0, Math.max(2, (this.right - LEFT) / 110), false);
    for (let at = Math.ceil(x0 / dx) * dx; at <= x1; at += dx) {
      const x = Math.round(this.x(at)) + .5;
      g.beginPath(); g.moveTo(x, TOP); g.lineTo(x, this.tall - AXIS); g.stroke();
      if (x < this.right - 50) g.fillText(at, x, this.tall - 6);
    }
    g.textAlign = "right";
    g.fillText("step", this.right, this.tall - 6);
  }

  /// Roles one after the other, so that the colour changes a few times only. What a search leaves out is faint.
  drawBuffers(g) {
    const plan = this.plan, { x0, x1, y0, y1 } = this.view, found = this.found;
    const sx = (this.right - LEFT) / (x1 - x0), sy = (this.bottom - TOP) / (y1 - y0);
    const byRole = plan.roles.map(() => []), faint = [], labels = [];  // of each: buffer, begin, end, three numbers in a row
    for (let i = 0; i < plan.count; ++i) {
      if (plan.begin[i] >= x1 || plan.end[i] <= x0 || plan.offset[i] >= y1 || plan.offset[i] + plan.size[i] <= y0) continue;
      plan.eachTurn(i, (role, begin, end) => {
        if (this.isShown(role)) (found && !found[i] ? faint : byRole[role]).push(i, begin, end);
      });
    }
    // Whole pixels: no edges to be blended, which takes most of the time, and no pixel twice in one colour for tiny ones.
    const tiny = new Uint8Array(Math.ceil(this.width) * Math.ceil(this.tall)), stride = Math.ceil(this.width);
    const rectangle = (i, begin, end, role) => {
      const from = Math.max(LEFT + (begin - x0) * sx, LEFT - 2), to = Math.min(LEFT + (end - x0) * sx, this.right + 2);
      const left = Math.round(from), w = Math.max(Math.round(to) - left, 1);
      const low = Math.round(Math.min(this.bottom - (plan.offset[i] - y0) * sy, this.bottom + 2));
      const top = Math.round(Math.max(this.bottom - (plan.offset[i] + plan.size[i] - y0) * sy, TOP - 2)), h = Math.max(low - top, 1);
      if (w <= 2 && h <= 2) {
        const pixel = top * stride + left;
        if (tiny[pixel] === role + 2) return;
        tiny[pixel] = role + 2;
      }
      g.fillRect(left, top, w > 4 && end === plan.end[i] ? w - 1 : w, h > 2 ? h - 1 : h);
      const isMost = 2 * (end - begin) >= plan.end[i] - plan.begin[i];  // of its turns
      if (role >= 0 && isMost && w > 64 && h > 13) labels.push([i, left, top, w, h, role]);
    };
    const draw = (list, role) => { for (let k = 0; k < list.length; k += 3) rectangle(list[k], list[k + 1], list[k + 2], role); };
    g.fillStyle = this.colour.quiet;
    g.globalAlpha = .16;
    draw(faint, -1);
    g.globalAlpha = 1;
    byRole.forEach((list, role) => { g.fillStyle = plan.roles[role].colour; draw(list, role); });
    this.drawLabels(g, labels);
  }

  drawLabels(g, labels) {
    g.textAlign = "left";
    g.textBaseline = "middle";
    if (labels.length > 700) labels = labels.sort((a, b) => b[3] * b[4] - a[3] * a[4]).slice(0, 700);
    for (const [i, left, top, w, h, role] of labels) {
      const from = Math.max(left, LEFT), to = Math.min(left + w, this.right), room = Math.floor((to - from - 8) / 6.1);
      if (room < 6) continue;
      const low = Math.max(top, TOP), high = Math.min(top + h, this.bottom);
      if (high - low < 12) continue;
      const name = this.plan.of("name", i);
      g.fillStyle = this.plan.roles[role].dark ? "#ffffff" : "#10151d";
      g.fillText(name.length > room ? name.slice(0, room - 1) + "…" : name, from + 4, (low + high) / 2);
    }
  }

  /// The arena's end, the lower bound, what a device has, and the step at which most is alive.
  drawLines(g) {
    const line = (address, colour, text, below) => {
      const y = Math.round(this.y(address)) + .5;
      if (y < TOP || y > this.bottom) return;
      g.strokeStyle = colour;
      g.beginPath(); g.moveTo(LEFT, y); g.lineTo(this.right, y); g.stroke();
      g.textAlign = "right";
      g.textBaseline = below ? "top" : "bottom";
      const width = g.measureText(text).width + 10, top = below ? y + 2 : y - 15;
      g.fillStyle = this.colour.paper;
      g.globalAlpha = .82;
      g.fillRect(this.right - width, top, width, 14);
      g.globalAlpha = 1;
      g.fillStyle = colour;
      g.fillText(text, this.right - 5, below ? top + 2 : top + 13);
    };
    const { peak, bound, device, boundStep } = this.plan;
    g.lineWidth = 1.5;
    g.setLineDash([6, 4]);
    if (bound < peak) line(bound, this.colour.bound, "lower bound " + bytes(bound), true);
    g.setLineDash([]);
    line(peak, this.colour.bound, (bound === peak ? "peak = lower bound " : "peak ") + bytes(peak), this.y(peak) < TOP + 16);
    if (device) line(device.usable_bytes, this.colour.mark, device.name + " has " + bytes(device.usable_bytes), true);
    g.setLineDash([3, 3]);
    g.strokeStyle = this.colour.bound;
    const x = Math.round(this.x(boundStep + .5)) + .5;
    g.beginPath(); g.moveTo(x, TOP); g.lineTo(x, this.bottom); g.stroke();
    g.setLineDash([]);
  }

  /// The phases of the steps, as a band.
  drawStrip(g) {
    const top = this.bottom + GAP, { x0, x1 } = this.view;
    g.textBaseline = "middle";
    g.textAlign = "left";
    for (const [phase, begin, end] of this.plan.runs) {
      if (begin >= x1 || end <= x0) continue;
      const left = Math.max(this.x(begin), LEFT), right = Math.min(this.x(end), this.right);
      g.fillStyle = PHASE_COLOURS[phase];
      g.fillRect(left, top, Math.max(right - left, .8), STRIP);
      if (right - left < 62) continue;
      g.fillStyle = "#ffffff";
      g.fillText(this.plan.phases[phase], left + 6, top + STRIP / 2 + .5);
    }
  }

  /// Bytes alive over the steps: of steps that share a pixel the most.
  drawCurve(g) {
    const plan = this.plan, top = this.bottom + 2 * GAP + STRIP, low = this.tall - AXIS, tall = CURVE - 4;
    const scale = tall / Math.max(plan.bound, 1);
    const first = Math.max(0, Math.floor(this.view.x0)), last = Math.min(plan.live.length, Math.ceil(this.view.x1));
    g.fillStyle = this.colour.area;
    g.beginPath();
    g.moveTo(LEFT, low);
    for (let step = first; step < last;) {
      const px = Math.max(this.x(step), LEFT);
      let next = step + 1, most = plan.live[step];
      while (next < last && this.x(next) < px + 1) most = Math.max(most, plan.live[next++]);
      const right = Math.min(this.x(next), this.right), y = low - most * scale;
      g.lineTo(px, y);
      g.lineTo(right, y);
      if (next === last) g.lineTo(right, low);
      step = next;
    }
    g.closePath();
    g.fill();
    const bound = Math.round(low - plan.bound * scale) + .5;
    g.strokeStyle = this.colour.bound;
    g.lineWidth = 1;
    g.setLineDash([6, 4]);
    g.beginPath(); g.moveTo(LEFT, bound); g.lineTo(this.right, bound); g.stroke();
    g.setLineDash([]);
    g.fillStyle = this.colour.quiet;
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.fillText(bytes(plan.bound), LEFT - 8, Math.max(bound, top + 2));
    g.fillText("alive", LEFT - 8, (top + low) / 2);
    g.strokeStyle = this.colour.line;
    g.beginPath(); g.moveTo(LEFT, low + .5); g.lineTo(this.right, low + .5); g.stroke();
  }

  drawOver() {
    const g = this.over.getContext("2d"), plan = this.plan;
    g.clearRect(0, 0, this.width, this.tall);
    if (this.step >= 0 && this.step < plan.times) {
      const left = Math.max(this.x(this.step), LEFT), right = Math.min(this.x(this.step + 1), this.right);
      g.fillStyle = this.colour.ink;
      g.globalAlpha = .13;
      g.fillRect(left, TOP, Math.max(right - left, 1), this.tall - AXIS - TOP);
      g.globalAlpha = 1;
    }
    g.save();
    g.beginPath();
    g.rect(LEFT - 1, TOP - 1, this.right - LEFT + 2, this.bottom - TOP + 2);
    g.clip();
    for (const [i, width] of [[this.hover, 2], [this.pinned, 3]]) {
      if (i < 0) continue;
      const left = this.x(plan.begin[i]), top = this.y(plan.offset[i] + plan.size[i]);
      const w = Math.max(this.x(plan.end[i]) - left, 2), h = Math.max(this.y(plan.offset[i]) - top, 2);
      g.lineWidth = width + 2;
      g.strokeStyle = this.colour.paper;
      g.strokeRect(left, top, w, h);
      g.lineWidth = width;
      g.strokeStyle = this.colour.ink;
      g.strokeRect(left, top, w, h);
    }
    g.restore();
  }
}
