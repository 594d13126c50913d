// The plan as typed arrays, and what can be asked of it: which buffer lies under a point, what is alive at a step, which
// buffers match a text. Nothing here draws.

const KINDS = ["KiB", "MiB", "GiB", "TiB"];

function bytes(n) {
  if (n < 1024) return n + " B";
  let unit = -1;
  while (n >= 1023.5 && unit < KINDS.length - 1) { n /= 1024; ++unit; }
  return n.toFixed(n >= 100 ? 0 : n >= 10 ? 1 : 2) + " " + KINDS[unit];
}

class Plan {
  constructor(json) {
    Object.assign(this, {
      file: json.file, kernels: json.kernels, peak: json.peak_bytes, bound: json.lower_bound_bytes, boundStep: json.lower_bound_step,
      device: json.device || null, roles: json.roles, phases: json.phases, strings: json.strings, live: Float64Array.from(json.live_bytes),
      phaseOf: Uint8Array.from(json.steps.phase), step: json.steps,
    });
    const b = json.buffers;
    this.count = b.size.length;
    this.offset = Float64Array.from(b.offset);
    this.size = Float64Array.from(b.size);
    this.taken = this.size.map((n) => Math.ceil(n / json.alignment) * json.alignment);
    this.begin = Uint32Array.from(b.begin);
    this.end = Uint32Array.from(b.end);
    this.role = Uint8Array.from(b.role);
    this.turns = new Map(Object.entries(b.turns).map(([id, turns]) => [Number(id), turns]));  // of those with more than one role
    this.text = { name: Uint32Array.from(b.name), module: Uint32Array.from(b.module), site: Uint32Array.from(b.site), op: Uint32Array.from(b.op) };
    this.steps = this.phaseOf.length;
    this.times = this.steps;  // the width of the plot: the time of the copies after the last step counts where it holds something
    for (let i = 0; i < this.count; ++i) if (this.end[i] > this.times) this.times = this.end[i];
    this.times = Math.max(this.times, 1);
    this.height = Math.max(this.peak, 1);
    this.runs = this.findRuns();
    this.index();
  }

  of(what, i) { return this.strings[this.text[what][i]]; }
  ofStep(what, step) { return this.strings[this.step[what][step]] || ""; }

  roleAt(i, step) {
    const turns = this.turns.get(i);
    if (!turns) return this.role[i];
    let role = turns[1];
    for (let k = 2; k < turns.length && turns[k] <= step; k += 2) role = turns[k + 1];
    return role;
  }

  /// Calls `visit(role, begin, end)` with each turn of a buffer.
  eachTurn(i, visit) {
    const turns = this.turns.get(i);
    if (!turns) return visit(this.role[i], this.begin[i], this.end[i]);
    for (let k = 0; k < turns.length; k += 2) visit(turns[k + 1], Math.max(turns[k], this.begin[i]), k + 2 < turns.length ? turns[k + 2] : this.end[i]);
  }

  /// [phase, begin, end] of steps that follow each other.
  findRuns() {
    const runs = [];
    for (let step = 0; step < this.steps; ++step) {
      const last = runs[runs.length - 1];
      if (last && last[0] === this.phaseOf[step]) last[2] = step + 1;
      else runs.push([this.phaseOf[step], step, step + 1]);
    }
    return runs;
  }

  /// Buffers by bucket of steps: a point asks one bucket only.
  index() {
    const wanted = Math.min(512, this.times);
    this.stride = Math.ceil(this.times / wanted);
    const heads = new Uint32Array(Math.ceil(this.times / this.stride) + 1);
    const each = (visit) => {
      for (let i = 0; i < this.count; ++i) {
        const last = Math.floor(Math.max(this.end[i] - 1, this.begin[i]) / this.stride);
        for (let k = Math.floor(this.begin[i] / this.stride); k <= last && k < heads.length - 1; ++k) visit(k, i);
      }
    };
    each((k) => { ++heads[k + 1]; });
    for (let k = 1; k < heads.length; ++k) heads[k] += heads[k - 1];
    this.ids = new Uint32Array(heads[heads.length - 1]);
    const fill = heads.slice();
    each((k, i) => { this.ids[fill[k]++] = i; });
    this.heads = heads;
  }

  /// Calls `visit` with each buffer alive at `step`.
  aliveAt(step, visit) {
    const k = Math.floor(step / this.stride);
    if (step < 0 || k >= this.heads.length - 1) return;
    for (let n = this.heads[k]; n < this.heads[k + 1]; ++n) {
      const i = this.ids[n];
      if (this.begin[i] <= step && step < this.end[i]) visit(i);
    }
  }

  /// The buffer at a step and an address; -1: none.
  at(step, address, isShown) {
    let found = -1;
    this.aliveAt(Math.floor(step), (i) => {
      if (this.offset[i] <= address && address < this.offset[i] + this.size[i] && isShown(this.roleAt(i, Math.floor(step)))) found = i;
    });
    return found;
  }

  /// Bytes by role at a step, and the ids of what is alive, largest first.
  cut(step) {
    const sums = new Float64Array(this.roles.length), ids = [];
    this.aliveAt(step, (i) => { sums[this.roleAt(i, step)] += this.taken[i]; ids.push(i); });
    ids.sort((a, b) => this.size[b] - this.size[a]);
    return { sums, ids };
  }

  /// One flag per buffer: does the text stand in its name, module, op or line? Null for an empty text.
  find(text) {
    const words = text.trim().toLowerCase();
    if (!words) return null;
    const hits = this.strings.map((s) => s.toLowerCase().includes(words));
    const found = new Uint8Array(this.count);
    const { name, module, site, op } = this.text;
    for (let i = 0; i < this.count; ++i) found[i] = hits[name[i]] || hits[module[i]] || hits[site[i]] || hits[op[i]] ? 1 : 0;
    return found;
  }
}
