/**
 * The explorer of fi_notebook: one plain ES module, no build step, no network.
 *
 *   kernel --(head + columns)--> Wire --> Store --> panes: tree, site, plan, result, footer
 *   page   --(small requests)--> kernel; every request is answered by a reply or an error
 *
 * Every name, source line and value is set as text, never as markup.
 * Sections 1 to 5 are pure and tested without a page.
 */

/**
 * @typedef {{ kind: string, data: any, columns: Record<string, any> }} Message
 * @typedef {{ data: any, columns: Record<string, any>, size: number }} Trace
 * @typedef {{
 *   size: number, kind: Uint8Array, ref: Int32Array, parent: Int32Array, end: Int32Array,
 *   depth: Uint8Array, leaves: Int32Array, children: Int32Array, nodeOfRow: Int32Array
 * }} Tree
 * @typedef {{ field: string, value: string, negate: boolean }} Term
 * @typedef {(trace: Trace, value: string) => (row: number) => boolean} MakeTest
 */

// ---- 1. Numbers and names ----

/** JSON has no NaN and no infinity: they travel as text. @returns {number} */
export function number(value) {
  if (typeof value === "number") return value;
  const words = { inf: Infinity, "-inf": -Infinity };
  return value in words ? words[value] : Number(value);
}

/** A number in four significant digits. */
export function short(value) {
  if (typeof value === "string" && Number.isNaN(number(value)) && value !== "nan") return value;
  if (typeof value === "boolean") return String(value);
  const x = number(value);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "+Inf" : "−Inf";
  if (x === 0) return Object.is(x, -0) ? "−0" : "0";
  const size = Math.abs(x);
  const plain = size >= 1e-3 && size < 1e5;
  const text = Number.isInteger(x) && size < 1e5 ? String(x)
    : plain ? String(Number(x.toPrecision(4))) : x.toExponential(3).replace("e+", "e");
  return text.replace("-", "−").replace("e-", "e−");
}

/** A number in full, as Python writes it. */
export function exact(value) {
  const x = number(value);
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  return Object.is(x, -0) ? "-0.0" : String(x);
}

/** A count with thin spaces between thousands. @param {number} n */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** `1 site`, `3 sites`. @param {number} n @param {string} noun */
export function plural(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** A long text by its two ends. @param {string} text @param {number} [longest] */
export function clip(text, longest = 160) {
  if (text.length <= longest) return text;
  const half = Math.floor(longest / 2) - 1;
  return `${text.slice(0, half)} … ${text.slice(-half)}`;
}

/** @param {number[]} shape */
export function shapeText(shape) {
  return shape.length ? `[${shape.join(", ")}]` : "scalar";
}

/** The short name of a dtype. @param {string} dtype */
export function dtypeText(dtype) {
  return dtype.replace("bfloat", "bf").replace("float", "f").replace("complex", "c")
    .replace("uint", "u").replace("int", "i");
}

// ---- 2. Bits ----

/** Sign, exponent and mantissa bits of each float dtype. @type {Record<string, number[]>} */
export const FLOATS = {
  float64: [1, 11, 52], float32: [1, 8, 23], float16: [1, 5, 10], bfloat16: [1, 8, 7],
  float8_e4m3fn: [1, 4, 3], float8_e5m2: [1, 5, 2],
};

/** @type {Record<string, number>} */
const INTEGERS = {
  int8: 8, int16: 16, int32: 32, int64: 64, uint8: 8, uint16: 16, uint32: 32, uint64: 64, bool: 8,
};

/** How many bits an element has; 0 where it has no bit lens. @param {string} dtype */
export function width(dtype) {
  const parts = FLOATS[dtype];
  return parts ? parts[0] + parts[1] + parts[2] : INTEGERS[dtype] ?? 0;
}

/** `sign`, `exponent`, `mantissa` or `value`. @param {string} dtype @param {number} bit */
export function fieldOf(dtype, bit) {
  const parts = FLOATS[dtype];
  if (!parts) return dtype.startsWith("int") && bit === width(dtype) - 1 ? "sign" : "value";
  if (bit === parts[1] + parts[2]) return "sign";
  return bit >= parts[2] ? "exponent" : "mantissa";
}

/** The value that these bits make. @param {string} dtype @param {bigint} bits */
export function decodeBits(dtype, bits) {
  const parts = FLOATS[dtype];
  if (!parts) return decodeInteger(dtype, bits);
  const [, exponentBits, mantissaBits] = parts;
  const mantissa = Number(bits & ((1n << BigInt(mantissaBits)) - 1n));
  const top = (1 << exponentBits) - 1;
  const exponent = Number((bits >> BigInt(mantissaBits)) & BigInt(top));
  const sign = bits >> BigInt(exponentBits + mantissaBits) ? -1 : 1;
  const bias = top >> 1;
  const scale = 2 ** mantissaBits;
  if (exponent === 0) return sign * (mantissa / scale) * 2 ** (1 - bias);
  if (exponent === top && dtype === "float8_e4m3fn") {
    if (mantissa === scale - 1) return NaN;
  } else if (exponent === top) return mantissa ? NaN : sign * Infinity;
  return sign * (1 + mantissa / scale) * 2 ** (exponent - bias);
}

/** @param {string} dtype @param {bigint} bits */
function decodeInteger(dtype, bits) {
  if (dtype === "bool") return bits ? 1 : 0;
  return Number(dtype.startsWith("int") ? BigInt.asIntN(width(dtype), bits) : bits);
}

/** The bits in which two words differ, highest first. @param {bigint} a @param {bigint} b */
export function changedBits(a, b) {
  const bits = [];
  for (let rest = a ^ b, bit = 0; rest; rest >>= 1n, bit += 1) if (rest & 1n) bits.unshift(bit);
  return bits;
}

/** `bit 30 (exponent)`; several bits of one word. @param {string} dtype @param {number[]} bits */
export function bitsText(dtype, bits) {
  if (!bits.length) return "no bit";
  if (bits.length > 4) return `${bits.length} bits`;
  return bits.map((bit) => `bit ${bit} (${fieldOf(dtype, bit)})`).join(", ");
}

/** Hexadecimal digits of a word, in full width. @param {string} hex @param {string} dtype */
export function hexText(hex, dtype) {
  return "0x" + hex.padStart(Math.max(1, width(dtype) / 4), "0");
}

// ---- 3. Wire ----

const ARRAYS = {
  uint8: Uint8Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
};

/** Read one block: a JSON head, then columns at multiples of eight bytes.
 * @param {number} head @param {Uint8Array} block @returns {Message} */
export function unpack(head, block) {
  const message = JSON.parse(new TextDecoder().decode(block.subarray(0, head)));
  const buffer = block.buffer;
  let at = block.byteOffset + Math.ceil(head / 8) * 8;
  const columns = {};
  for (const [name, type, length] of message.columns) {
    columns[name] = new ARRAYS[type](buffer, at, length);
    at += Math.ceil((length * ARRAYS[type].BYTES_PER_ELEMENT) / 8) * 8;
  }
  return { kind: message.kind, data: message.data, columns };
}

/** @param {Uint8Array} bytes */
async function inflate(bytes) {
  const stream = new Blob([/** @type {any} */ (bytes)]).stream()
    .pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {Uint8Array[]} parts */
function joined(parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Puts the parts of messages together, in order, and notices a message that was lost. */
export class Wire {
  /** @param {(message: Message) => void} deliver @param {() => void} resync */
  constructor(deliver, resync) {
    this.deliver = deliver;
    this.resync = resync;
    this.last = 0;
    /** @type {Uint8Array[]} */
    this.parts = [];
    this.queue = Promise.resolve();
  }

  /** @param {DataView[]} buffers */
  receive(content, buffers) {
    if (content.part === 0) this.parts = [];
    const view = buffers[0];
    this.parts.push(new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice());
    if (content.part < content.parts - 1) return;
    const whole = this.parts.length === content.parts ? joined(this.parts) : null;
    this.parts = [];
    const lost = !whole || (this.last && content.seq !== this.last + 1);
    this.last = content.seq;
    if (lost) this.resync();
    if (whole) this.queue = this.queue.then(() => this.open(content, whole));
  }

  /** @param {Uint8Array} block */
  async open(content, block) {
    this.deliver(unpack(content.head, content.deflated ? await inflate(block) : block));
  }
}

// ---- 4. Search ----

const FIELDS = ["op", "phase", "module", "code", "dtype", "bad", "armed",
  "effect", "re"];

/** Read a search: words, `field:value`, `-field:value`, `re:pattern`; quotes keep spaces.
 * @param {string} text @returns {Term[]} */
export function parseQuery(text) {
  const terms = [];
  for (const match of text.matchAll(/(-?)(?:([a-z]+):(?=["\S]|\s|$))?("[^"]*"?|\S*)/gi)) {
    const [all, minus, name = "", rest] = match;
    if (!all) continue;
    const value = rest.replace(/^"|"$/g, "");
    const field = name.toLowerCase();
    const known = !field || FIELDS.includes(field);
    terms.push({ field: known ? field : "", value: known ? value : `${name}:${value}`,
      negate: minus === "-" });
  }
  return terms;
}

/** @param {string} pattern a glob without case */
function glob(pattern) {
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$+.()|[\]{}?]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "i");
}

/** @param {(entry: any, row: number) => boolean} test */
function chosen(table, test) {
  return Uint8Array.from(table, (entry, row) => (test(entry, row) ? 1 : 0));
}

/** `relu*2:0`, `other/mul*1:0`. @param {Trace} trace @param {number} row */
export function siteText(trace, row) {
  const c = trace.columns;
  const prefix = c.counted[row] ? "" : "other/";
  const index = c.index[row] < 0 ? "" : `[${c.index[row]}]`;
  return `${prefix}${trace.data.ops[c.op[row]]}*${c.number[row]}:${c.output[row]}${index}`;
}

/** Short text of a source line. */
export function frameText(frame) {
  return `${String(frame[0]).replaceAll("\\", "/").split("/").pop()}:${frame[1]}`;
}

/** @type {MakeTest} */
function opTest(trace, value) {
  const call = /^(.*)\*(\d+)(?::(\d+))?$/.exec(value);
  const wanted = glob(call ? call[1] : value);
  const ops = chosen(trace.data.ops, (op) => wanted.test(op));
  const { op, number: numbers, output } = trace.columns;
  if (!call) return (row) => ops[op[row]] === 1;
  return (row) => ops[op[row]] === 1 && numbers[row] === Number(call[2])
    && (call[3] === undefined || output[row] === Number(call[3]));
}

/** @type {MakeTest} */
function moduleTest(trace, value) {
  const exactly = glob(value);
  const below = glob(`${value}.*`);
  const modules = chosen(trace.data.modules, ([path, , aliases]) =>
    value === "" || [path, ...aliases].some((name) => exactly.test(name) || below.test(name)));
  return (row) => modules[trace.columns.module[row]] === 1;
}

/** @type {MakeTest} */
function codeTest(trace, value) {
  const line = /^\d+$/.test(value) ? Number(value) : null;
  const text = value.toLowerCase().replace(/\[(\d+)\]$/, ":$1");
  const frames = chosen(trace.data.frames, (frame) =>
    line === null ? `${frame[0]}:${frame[1]}`.toLowerCase().includes(text) : frame[1] === line);
  const stacks = chosen(trace.data.stacks, (stack) =>
    stack.some((f) => frames[f] === 1));
  const { stack, own_stack: own } = trace.columns;
  return (row) => stacks[stack[row]] === 1 || stacks[own[row]] === 1;
}

/** @type {MakeTest} */
function badTest(trace, value) {
  const { nan, posinf, neginf } = trace.columns;
  const kind = value.toLowerCase();
  if (kind === "nan") return (row) => nan[row] > 0;
  if (kind === "inf") return (row) => posinf[row] > 0 || neginf[row] > 0;
  return (row) => nan[row] > 0 || posinf[row] > 0 || neginf[row] > 0;
}

/** @type {MakeTest} */
function wordTest(trace, value) {
  const word = value.toLowerCase();
  const has = (text) => String(text).toLowerCase().includes(word);
  const c = trace.columns;
  const ops = chosen(trace.data.ops, has);
  const modules = chosen(trace.data.modules, ([path, kind]) => has(path) || has(kind));
  const parameters = chosen(trace.data.parameters, has);
  const frames = chosen(trace.data.frames, (frame) => has(frameText(frame)));
  const stacks = chosen(trace.data.stacks, (s) => s.some((f) => frames[f] === 1));
  const full = /[*:[]/.test(word);
  return (row) => ops[c.op[row]] === 1 || modules[c.module[row]] === 1
    || stacks[c.stack[row]] === 1
    || (c.parameter[row] >= 0 && parameters[c.parameter[row]] === 1)
    || (full && has(siteText(trace, row)));
}

/** @type {MakeTest} */
function patternTest(trace, pattern) {
  const wanted = new RegExp(pattern, "i");
  const modules = trace.data.modules;
  return (row) => wanted.test(`${modules[trace.columns.module[row]][0]} ${siteText(trace, row)}`);
}

/** What a term needs to know beside the trace.
 * @typedef {{ armed: Map<number, string[]>, effect: Uint8Array | null, effects: string[] }} Facts */

/** @param {Trace} trace @param {Term} term @param {Facts} facts @returns {(row: number) => boolean} */
function test(trace, term, facts) {
  const { value } = term;
  const c = trace.columns;
  const starts = (name) => String(name).toLowerCase().startsWith(value.toLowerCase());
  if (term.field === "op") return opTest(trace, value);
  if (term.field === "module") return moduleTest(trace, value);
  if (term.field === "code") return codeTest(trace, value);
  if (term.field === "bad") return badTest(trace, value);
  if (term.field === "re") return patternTest(trace, value);
  if (term.field === "armed") return armedTest(facts, value);
  if (term.field === "phase") return byTable(chosen(trace.data.phases, starts), c.phase);
  if (term.field === "dtype") return byTable(chosen(trace.data.dtypes, starts), c.dtype);
  if (term.field === "effect") {
    if (!facts.effect) return () => false;
    return byTable(chosen(facts.effects, starts), facts.effect);
  }
  return wordTest(trace, value);
}

/** @param {Uint8Array} mask */
function byTable(mask, column) {
  return (row) => mask[column[row]] === 1;
}

/** @param {Facts} facts @param {string} value @returns {(row: number) => boolean} */
function armedTest(facts, value) {
  return (row) => {
    const faults = facts.armed.get(row);
    return Boolean(faults) && (!value || faults.includes(value));
  };
}

/** The rows that all terms choose, as a mask. Throws where a pattern cannot be read.
 * @param {Trace} trace @param {Term[]} terms @param {Facts} facts */
export function search(trace, terms, facts) {
  const tests = terms.map((term) => ({ run: test(trace, term, facts), negate: term.negate }));
  const mask = new Uint8Array(trace.size);
  for (let row = 0; row < trace.size; row += 1) {
    mask[row] = tests.every(({ run, negate }) => run(row) !== negate) ? 1 : 0;
  }
  return mask;
}

// ---- 5. Tree ----

export const VIEWS = ["modules", "source", "operators", "timeline"];

/** What a node stands for; `ref` points into the table of that kind. */
export const KIND = { module: 0, file: 1, line: 2, op: 3, phase: 4, call: 5, site: 6, fold: 7 };

/** Collects nodes in any order, then lays them out parents first. */
class TreeBuilder {
  constructor() {
    /** @type {number[]} */ this.kind = [];
    /** @type {number[]} */ this.ref = [];
    /** @type {number[]} */ this.parent = [];
    /** @type {Map<string, number>} */ this.known = new Map();
  }

  /** @param {number} parent @param {number} kind @param {number} ref */
  add(parent, kind, ref) {
    this.kind.push(kind);
    this.ref.push(ref);
    this.parent.push(parent);
    return this.kind.length - 1;
  }

  /** The node of this key, made at the first call.
   * @param {string} key @param {number} parent @param {number} kind @param {number} ref */
  get(key, parent, kind, ref) {
    let node = this.known.get(key);
    if (node === undefined) {
      node = this.add(parent, kind, ref);
      this.known.set(key, node);
    }
    return node;
  }

  /** @param {number} rows @returns {Tree} */
  finish(rows) {
    const size = this.kind.length;
    const { first, next } = siblings(this.parent);
    const tree = emptyTree(size, rows);
    const place = new Int32Array(size);
    let at = 0;
    const open = [];
    for (let node = first[size]; node >= 0 || open.length;) {
      if (node < 0) {
        const done = open.pop();
        tree.end[place[done]] = at;
        node = next[done];
        continue;
      }
      place[node] = at;
      this.put(tree, node, at, this.parent[node] < 0 ? -1 : place[this.parent[node]]);
      at += 1;
      open.push(node);
      node = first[node];
    }
    for (let n = size - 1; n >= 0; n -= 1) if (tree.parent[n] >= 0) tree.leaves[tree.parent[n]] += tree.leaves[n];
    return tree;
  }

  /** @param {Tree} tree @param {number} node @param {number} at @param {number} parent */
  put(tree, node, at, parent) {
    tree.kind[at] = this.kind[node];
    tree.ref[at] = this.ref[node];
    tree.parent[at] = parent;
    tree.depth[at] = parent < 0 ? 0 : tree.depth[parent] + 1;
    if (parent >= 0) tree.children[parent] += 1;
    if (this.kind[node] !== KIND.site) return;
    tree.leaves[at] = 1;
    tree.nodeOfRow[this.ref[node]] = at;
  }
}

/** First child and next sibling of every node; entry `size` holds the roots.
 * @param {number[]} parent */
function siblings(parent) {
  const size = parent.length;
  const first = new Int32Array(size + 1).fill(-1);
  const next = new Int32Array(size + 1).fill(-1);
  for (let node = size - 1; node >= 0; node -= 1) {
    const above = parent[node] < 0 ? size : parent[node];
    next[node] = first[above];
    first[above] = node;
  }
  return { first, next };
}

/** @param {number} size @param {number} rows @returns {Tree} */
function emptyTree(size, rows) {
  return {
    size,
    kind: new Uint8Array(size), ref: new Int32Array(size), parent: new Int32Array(size),
    end: new Int32Array(size), depth: new Uint8Array(size), leaves: new Int32Array(size), children: new Int32Array(size),
    nodeOfRow: new Int32Array(rows).fill(-1),
  };
}

/** The tree of a trace in one of `VIEWS`; sites are its leaves.
 * @param {Trace} trace @param {string} view @returns {Tree} */
export function buildTree(trace, view) {
  const builder = new TreeBuilder();
  const above = PLACES[view](trace, builder);
  const grouped = view === "modules" || view === "source";
  addSites(trace, builder, grouped ? groupedByOperator(trace, builder, above) : above);
  return builder.finish(trace.size);
}

/** What numbered siblings of one class share: `layers.0` to `layers.47` fold into one node. */
function family([path, kind]) {
  return /(^|\.)\d+$/.test(path) ? path.replace(/\d+$/, kind) : "";
}

/** Modules in their own order, each below the nearest module above it.
 * @param {Trace} trace @param {TreeBuilder} builder */
function modulesAbove(trace, builder) {
  const modules = trace.data.modules;
  const used = new Uint8Array(modules.length);
  for (const module of trace.columns.module) used[module] = 1;
  const byPath = new Map(modules.map((m, i) => [m[0], i]));
  const families = new Map();
  for (const name of modules.map(family)) if (name) families.set(name, (families.get(name) ?? 0) + 1);
  /** @type {Map<number, number>} */
  const nodes = new Map();
  const parentOf = (module) => {
    const [path, kind] = modules[module];
    if (!kind || path === "") return -1;
    for (let at = path.lastIndexOf("."); at > 0; at = path.lastIndexOf(".", at - 1)) {
      if (byPath.has(path.slice(0, at))) return nodeOf(byPath.get(path.slice(0, at)));
    }
    return byPath.has("") ? nodeOf(byPath.get("")) : -1;
  };
  const nodeOf = (module) => {
    let node = nodes.get(module);
    if (node === undefined) {
      const name = family(modules[module]);
      const above = parentOf(module);
      const parent = families.get(name) > 3 ? builder.get(`r${name}`, above, KIND.fold, module) : above;
      node = builder.add(parent, KIND.module, module);
      nodes.set(module, node);
    }
    return node;
  };
  modules.forEach((_, module) => used[module] && nodeOf(module));
  return (row) => nodeOf(trace.columns.module[row]);
}

/** Files and their lines. @param {Trace} trace @param {TreeBuilder} builder */
function sourceAbove(trace, builder) {
  const { frames, stacks } = trace.data;
  return (row) => {
    const stack = stacks[trace.columns.stack[row]];
    const frame = stack && stack.length ? stack[0] : -1;
    if (frame < 0) return builder.get("f", -1, KIND.file, -1);
    const [file, line] = frames[frame];
    const parent = builder.get(`f${file}`, -1, KIND.file, frame);
    return builder.get(`l${file}\n${line}`, parent, KIND.line, frame);
  };
}

/** Operators. @param {Trace} trace @param {TreeBuilder} builder */
function operatorsAbove(trace, builder) {
  const { op } = trace.columns;
  return (row) => builder.get(`o${op[row]}`, -1, KIND.op, op[row]);
}

/** Runs of one phase, in execution order. @param {Trace} trace @param {TreeBuilder} builder */
function timelineAbove(trace, builder) {
  let phase = -1;
  let node = -1;
  return (row) => {
    if (trace.columns.phase[row] !== phase) {
      phase = trace.columns.phase[row];
      node = builder.add(-1, KIND.phase, phase);
    }
    return node;
  };
}

/** Where the sites of each view stand. @type {Record<string, (t: Trace, b: TreeBuilder) => any>} */
const PLACES = {
  modules: modulesAbove, source: sourceAbove, operators: operatorsAbove, timeline: timelineAbove,
};

/** Puts an operator node between a place and its sites, where it has several calls there.
 * @param {Trace} trace @param {TreeBuilder} builder @param {(row: number) => number} above */
function groupedByOperator(trace, builder, above) {
  const { op, phase, call } = trace.columns;
  const calls = new Map();
  const keyOf = (row) => (above(row) * 4096 + op[row]) * 8 + phase[row];
  for (let row = 0; row < trace.size; row += 1) {
    if (row && call[row] === call[row - 1]) continue;
    const key = keyOf(row);
    calls.set(key, (calls.get(key) ?? 0) + 1);
  }
  return (row) => {
    const key = keyOf(row);
    return calls.get(key) > 1 ? builder.get(`g${key}`, above(row), KIND.op, op[row]) : above(row);
  };
}

/** Sites, below a call node where the call has several.
 * @param {Trace} trace @param {TreeBuilder} builder @param {(row: number) => number} above */
function addSites(trace, builder, above) {
  const call = trace.columns.call;
  let node = -1;
  for (let row = 0; row < trace.size; row += 1) {
    const first = row === 0 || call[row] !== call[row - 1];
    const several = row + 1 < trace.size && call[row + 1] === call[row];
    if (first) node = several ? builder.add(above(row), KIND.call, row) : above(row);
    builder.add(node, KIND.site, row);
  }
}

/** How many chosen sites stand at or below each node. @param {Tree} tree @param {Uint8Array} mask */
export function tally(tree, mask) {
  const found = new Int32Array(tree.size);
  for (let node = tree.size - 1; node >= 0; node -= 1) {
    if (tree.kind[node] === KIND.site) found[node] = mask[tree.ref[node]];
    if (tree.parent[node] >= 0) found[tree.parent[node]] += found[node];
  }
  return found;
}

/** The largest value at or below each node. @param {Tree} tree @param {ArrayLike<number>} values */
export function highest(tree, values) {
  const most = new Float64Array(tree.size).fill(-1);
  for (let node = tree.size - 1; node >= 0; node -= 1) {
    if (tree.kind[node] === KIND.site) most[node] = values[tree.ref[node]];
    const above = tree.parent[node];
    if (above >= 0 && !(most[node] <= most[above])) most[above] = most[node];
  }
  return most;
}

/** The nodes that are shown, in order: found ones whose ancestors are all open.
 * @param {Tree} tree @param {Uint8Array} open @param {Int32Array} found */
export function flatten(tree, open, found) {
  const shown = new Int32Array(tree.size);
  let size = 0;
  for (let node = 0; node < tree.size;) {
    if (!found[node]) {
      node = tree.end[node];
      continue;
    }
    shown[size] = node;
    size += 1;
    node = open[node] ? node + 1 : tree.end[node];
  }
  return shown.subarray(0, size);
}

/** Whether a node has children. @param {Tree} tree @param {number} node */
export function isBranch(tree, node) {
  return tree.end[node] > node + 1;
}

// ---- 6. Store ----

/** What the page knows, and what the person looks at. Views draw it; nothing lives in the DOM. */
export class Store {
  /** @param {(content: Record<string, any>) => void} send @param {boolean} readonly */
  constructor(send, readonly = false) {
    this.send = send;
    this.readonly = readonly;
    this.lost = "";
    this.trace = null;
    /** @type {any} */ this.hello = { models: [] };
    /** @type {any} */ this.plan = { faults: [] };
    this.run = null;
    this.errors = null;
    /** @type {any} */ this.figures = { figures: {}, texts: {} };
    /** @type {any} */ this.state = { state: "idle" };
    this.steps = null;
    /** @type {any[]} */ this.log = [];
    this.site = null;
    /** @type {Map<number, string[]>} */ this.armed = new Map();
    /** @type {Set<number>} */ this.pending = new Set();
    /** @type {Record<string, Tree>} */ this.trees = {};
    /** @type {Record<string, Uint8Array>} */ this.open = {};
    /** @type {any} */ this.ui = {
      view: "modules", query: "", hidden: new Set(), folded: false, node: -1, row: -1,
      heat: "std", tab: "diff", pane: "tree", element: [], injection: 0, frame: 0,
      form: { model: "bitflip", parameters: {}, extent: "index", extentText: "", steps: "0", seed: "0" },
    };
    /** @type {Set<(topics: string[]) => void>} */ this.listeners = new Set();
    /** @type {Map<number, any>} */
    this.waiting = new Map();
    this.lastId = 0;
    /** What gets the focus back after a part was drawn anew. @type {string | null} */
    this.refocus = null;
    this.previewTimer = 0;
    this.timer = 0;
    this.shown = null;
    this.onPlotly = null;
  }

  /** @param {(topics: string[]) => void} listener @returns {() => void} */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** @param {...string} topics */
  changed(...topics) {
    if (topics.some((topic) => ["trace", "tree", "plan", "run"].includes(topic))) this.shown = null;
    for (const listener of this.listeners) listener(topics);
  }

  /** Make a request; the promise ends with the kernel's reply.
   * @param {string} kind @param {Record<string, any>} [fields] @returns {Promise<any>} */
  ask(kind, fields = {}) {
    if (this.readonly || this.lost) return Promise.reject(new Error(this.lost || "read-only"));
    this.lastId += 1;
    const id = this.lastId;
    this.send({ kind, id, ...fields });
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** Make a request whose failure goes to the log. @param {string} kind */
  tell(kind, fields = {}) {
    return this.ask(kind, fields).catch((error) => this.note("error", error.message));
  }

  /** @param {string} level @param {string} [more] */
  note(level, text, more = "") {
    this.log.unshift({ level, text, more, time: new Date() });
    this.log.length = Math.min(this.log.length, 200);
    this.changed("log");
  }

  /** @param {string} reason */
  lose(reason) {
    this.lost = reason;
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
    this.changed("state", "plan", "site");
  }

  /** @param {Message} message */
  receive(message) {
    const handler = RECEIVERS[message.kind];
    if (handler) handler(this, message.data, message.columns);
  }

  /** @returns {Facts} */
  facts() {
    return { armed: this.armed, effect: this.errors?.effect ?? null, effects: this.run?.effects ?? [] };
  }

  /** The tree of the present view. @returns {Tree} */
  tree() {
    const { view } = this.ui;
    this.trees[view] ??= buildTree(this.trace, view);
    return this.trees[view];
  }

  /** Which nodes are open; a search has its own, all open at first. */
  opened() {
    const key = this.ui.query.trim() ? `${this.ui.view} found` : this.ui.view;
    this.open[key] ??= this.firstOpen(key.endsWith("found"));
    return this.open[key];
  }

  /** @param {boolean} all */
  firstOpen(all) {
    const tree = this.tree();
    const open = new Uint8Array(tree.size);
    for (let node = 0; node < tree.size; node += 1) {
      const kind = tree.kind[node];
      const shallow = (kind === KIND.module && tree.depth[node] < 1) || kind === KIND.file;
      open[node] = all || shallow ? 1 : 0;
    }
    return open;
  }

  /** What the tree pane shows now; worked out once per change. */
  visible() {
    if (this.shown || !this.trace) return this.shown;
    const tree = this.tree();
    const { mask, problem } = this.mask();
    const found = tally(tree, mask);
    const nodes = flatten(tree, this.opened(), found);
    const { nan, posinf, neginf } = this.trace.columns;
    const bad = nan.map((n, row) => n + posinf[row] + neginf[row]);
    let total = 0;
    for (const hit of mask) total += hit;
    const broken = this.errors && highest(tree, this.errors.bad);
    const changed = this.errors && highest(tree, this.errors.changed);
    this.shown = { tree, found, nodes, total, problem, mask, broken, changed, bad: highest(tree, bad), heat: this.heat(tree) };
    return this.shown;
  }

  /** The sites that search, phases and folding leave. */
  mask() {
    const trace = this.trace;
    const terms = parseQuery(this.ui.query);
    const { phase, flags } = trace.columns;
    const fold = this.ui.folded || terms.length ? 0 : 1 << trace.data.flags.indexOf("folded");
    let mask = new Uint8Array(trace.size).fill(1);
    let problem = "";
    try {
      if (terms.length) mask = search(trace, terms, this.facts());
    } catch (error) {
      problem = error.message;
    }
    for (let row = 0; row < trace.size; row += 1) {
      if (flags[row] & fold || this.ui.hidden.has(phase[row])) mask[row] = 0;
    }
    return { mask, problem };
  }

  /** The heat column: a statistic, or the error of the last replay.
   * @param {Tree} tree */
  heat(tree) {
    const columns = this.trace.columns;
    const name = this.ui.heat;
    const values = name === "error" ? this.errors?.error : columns[name];
    if (!values) return null;
    const sizes = Float64Array.from(values, (x) => (Number.isNaN(x) ? -1 : Math.abs(x)));
    if (name === "error") values.forEach((x, i) => { if (x < 0) sizes[i] = -1; });
    const most = highest(tree, sizes);
    let low = Infinity;
    let high = 0;
    for (const x of sizes) {
      if (x > 0 && x < low) low = x;
      if (x > high && x < Infinity) high = x;
    }
    return { most, low: Math.max(low, high * (name === "error" ? 1e-12 : 1e-5)), high };
  }

  /** Choose a site. Nothing runs. */
  select(row) {
    if (row < 0 || row === this.ui.row) return;
    this.ui.row = row;
    this.ui.frame = 0;
    this.ui.element = this.shapeOf(row).map(() => 0);
    this.site = null;
    this.changed("site");
    this.inspect();
  }

  /** Show a site in the tree too. */
  reveal(row) {
    if (!(row >= 0) || !this.trace) return;
    let node = this.tree().nodeOfRow[row];
    if (!this.visible()?.mask[row]) {
      this.ui.query = "";
      this.ui.hidden.clear();
      this.ui.folded = true;
    }
    const open = this.opened();
    this.ui.node = node;
    while ((node = this.tree().parent[node]) >= 0) open[node] = 1;
    this.select(row);
    this.changed("tree", "reveal");
  }

  /** Ask for exact figures and for the values, where they are kept. */
  inspect() {
    const { row, element } = this.ui;
    clearTimeout(this.timer);
    if (this.readonly || this.lost) return;
    this.timer = setTimeout(async () => {
      const site = await this.ask("inspect", { row, view: { element } }).catch(() => null);
      if (!site || this.ui.row !== row) return;
      this.site = site;
      this.changed("values");
    }, 60);
  }

  /** @returns {number[]} */
  shapeOf(row) {
    return this.trace.data.shapes[this.trace.columns.shape[row]];
  }

  /** @returns {string} */
  dtypeOf(row) {
    return this.trace.data.dtypes[this.trace.columns.dtype[row]];
  }

  /** Arm the form's fault at a site, or disarm what is armed there. */
  async toggleArmed(row) {
    const faults = this.armed.get(row);
    if (faults) return this.tell("disarm", { fault: faults[faults.length - 1] });
    this.select(row);
    return this.arm(row);
  }

  async arm(row) {
    this.pending.add(row);
    this.changed("tree");
    try {
      return await this.ask("arm", this.request(row));
    } finally {
      this.pending.delete(row);
      this.changed("tree");
    }
  }

  /** The fault that the form describes. */
  request(row) {
    const { model, parameters, steps, seed, probability, times, scope } = this.ui.form;
    const trace = this.trace;
    return {
      site: siteText(trace, row), model, parameters, elements: this.extent(),
      steps: steps.trim() || "0", seed: Number(seed) || 0,
      ...(probability ? { probability: Number(probability) } : {}),
      ...(times ? { times: Number(times) } : {}),
      ...(scope ? { scope } : {}),
    };
  }

  /** The elements that the form describes. */
  extent() {
    const { extent, extentText } = this.ui.form;
    if (extent === "index") return { index: this.ui.element };
    const value = typed("value", String(extentText));
    return value === null ? extent : { [extent]: value };
  }
}

/** Keeps the data of a message as it is. @param {string} name @param {...string} topics */
function kept(name, ...topics) {
  return (store, data) => {
    store[name] = data;
    store.changed(...topics);
  };
}

/** What each message of the kernel changes. @type {Record<string, (s: Store, d: any, c: any) => void>} */
const RECEIVERS = {
  hello(store, data) {
    store.hello = data;
    store.changed("hello", "state");
    if (data.superseded) store.lose("superseded by a newer session of this model");
  },
  figures: kept("figures", "figures"),
  state: kept("state", "state"),
  steps: kept("steps", "state", "steps"),
  trace(store, data, columns) {
    const same = store.trace && store.trace.size === data.sites;
    store.trace = { data, columns, size: data.sites };
    store.trees = {};
    if (!same) {
      store.open = {};
      store.ui.row = store.ui.node = -1;
      store.site = null;
    }
    store.changed("trace", "tree", "site");
    if (store.ui.row >= 0) store.inspect();
  },
  plan(store, data) {
    store.plan = data;
    store.armed = new Map();
    for (const fault of data.faults) {
      for (const row of fault.rows) store.armed.set(row, [...(store.armed.get(row) ?? []), fault.id]);
    }
    store.changed("plan", "tree");
  },
  run(store, data, columns) {
    store.run = data;
    store.errors = data ? columns : null;
    store.steps = null;
    store.ui.injection = 0;
    if (data) {
      store.ui.heat = "error";
      store.ui.pane = "result";
      for (const each of data.not_injected) store.note("warning", `${each.fault} not injected: ${each.reason}`);
      for (const text of data.messages) store.note("info", text);
      store.note("info", `${data.outcome.name}: ${data.outcome.reason}`);
    } else if (store.ui.heat === "error") store.ui.heat = "std";
    store.changed("run", "tree", "plan", "pane");
  },
  reply(store, data) {
    store.waiting.get(data.id)?.resolve(data.data);
    store.waiting.delete(data.id);
  },
  error(store, data) {
    const waiting = store.waiting.get(data.id);
    store.waiting.delete(data.id);
    waiting?.reject(new Error(data.text));
    store.note("error", data.text, data.traceback);
  },
  plotly(store, data, columns) {
    store.onPlotly?.(new TextDecoder().decode(columns.source));
  },
};

// ---- 7. Page helpers ----

/** An element with properties and children; strings become text, never markup.
 * @param {string} tag @param {Record<string, any> | null} [props] @param {...any} children
 * @returns {any} */
function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.map((each) => `fi-${each}`).join(" ");
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || (value === false && !key.startsWith("aria-"))) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled") /** @type {any} */ (element)[key] = value;
    else element.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put these children in place of the present ones; what is missing is left out. */
function fill(element, children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

/** A button. @param {() => void} onclick @param {string} [kind] */
function button(text, onclick, props = {}, kind = "") {
  return h(`button.button${kind ? `.${kind}` : ""}`, { type: "button", onclick, ...props }, text);
}

/** A number in short form, exact on hover. @param {string} [more] */
function figure(value, more = "") {
  return h("span.num", { title: exact(value) + (more ? ` · ${more}` : "") }, short(value));
}

/** A choice. @param {string} value @param {any[]} options pairs of value and text
 * @param {(value: string) => void} choose */
function select(value, options, choose, props = {}) {
  const box = h("select.select", { ...props, onchange: () => choose(box.value) },
    options.map(([each, text]) => h("option", { value: each }, text)));
  box.value = value;
  return box;
}

/** A table. @param {string[]} heads @param {string} label */
function table(heads, rows, label) {
  return h("table.table", { "aria-label": label },
    h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell) => h("td", null, cell))))));
}

/** A shape of a small picture. @param {string} tag @param {Record<string, any>} props @param {...any} children */
function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** A curve over calls with one point marked. @param {number[]} values @param {number} marked */
function sparkline(values, marked) {
  const finite = values.filter(Number.isFinite);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const x = (i) => (values.length < 2 ? 50 : (i / (values.length - 1)) * 96 + 2);
  const y = (v) => (Number.isFinite(v) ? 18 - ((v - low) / span) * 14 : 2);
  const points = values.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  return svg("svg", { class: "fi-spark", viewBox: "0 0 100 20", "aria-hidden": "true" },
    svg("polyline", { points }), svg("circle", { cx: x(marked), cy: y(values[marked]), r: 2.5 }));
}

/** Put a text on the clipboard. @param {Element} near */
async function copy(text, near) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { value: text });
    near.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** Short names of phases, beside their colour. @type {Record<string, string>} */
const PHASE_TAGS = {
  forward: "fwd", loss: "loss", backward: "bwd", recompute: "rec", optimizer: "opt", other: "oth",
};

function phaseTag(phase) {
  return h("span.phase", { "data-phase": phase, title: phase }, PHASE_TAGS[phase] ?? phase);
}

// ---- 8. Plots ----

const PAGE = /** @type {any} */ (globalThis);

/** plotly.js, loaded once per page from the kernel. @param {Store} store @returns {Promise<any>} */
function plotly(store) {
  PAGE.__fi_plotly ??= PAGE.Plotly && store.readonly ? Promise.resolve(PAGE.Plotly) : loadPlotly(store);
  return PAGE.__fi_plotly;
}

/** @param {Store} store */
async function loadPlotly(store) {
  const mine = PAGE.Plotly;
  const source = await new Promise((resolve) => {
    store.onPlotly = resolve;
    store.tell("plotly");
  });
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    await import(/* webpackIgnore: true */ url);
  } finally {
    URL.revokeObjectURL(url);
  }
  const loaded = PAGE.Plotly;
  if (mine) PAGE.Plotly = mine;
  return loaded;
}

/** A figure's layout in the look of the page. @param {View} view */
function themed(view, layout) {
  const { width: _, ...rest } = layout;
  const template = view.store.hello.templates?.[view.root.dataset.theme ?? "light"];
  return { ...rest, autosize: true, template };
}

/** A place for one figure; it is drawn when it can be seen.
 * @param {View} view @param {(point: any) => void} [onclick] */
function plot(view, name, onclick) {
  const place = h("div.plot", { role: "figure", "aria-label": `${name} plot` }, h("div.wait", null, "drawing …"));
  const source = view.store.figures.figures[name];
  if (source) draw(view, place, JSON.parse(source), onclick);
  else place.replaceChildren(h("div.empty", null, "no figure"));
  return place;
}

/** @param {View} view @param {(point: any) => void} [onclick] */
async function draw(view, place, parsed, onclick) {
  try {
    const library = await plotly(view.store);
    await new Promise(requestAnimationFrame);
    if (!place.isConnected) return;
    if (!place.fiPlot) place.replaceChildren();
    place.style.height = `${parsed.layout.height ?? 300}px`;
    await library.react(place, parsed.data, themed(view, parsed.layout),
      { responsive: true, displaylogo: false, displayModeBar: "hover" });
    place.fiPlot = parsed;
    if (onclick) place.on("plotly_click", (event) => onclick(event.points[0]));
  } catch (error) {
    place.replaceChildren(h("div.empty", null, `the figure could not be drawn: ${error}`));
  }
}

/** Draw every figure of a view again, in the colours that the page has now. @param {View} view */
async function redraw(view) {
  for (const place of view.root.querySelectorAll(".fi-plot")) {
    if (!place.fiPlot || !place.clientWidth) continue;
    (await plotly(view.store)).react(place, place.fiPlot.data, themed(view, place.fiPlot.layout));
  }
}

/** The text twin of a figure. @param {View} view */
function twin(view, name) {
  const text = view.store.figures.texts[name];
  return text ? h("details.twin", null, h("summary", null, "as text"), h("pre", null, text)) : null;
}

// ---- 9. Tree pane ----

const ROW = 24;
const TALLEST = 30_000_000; // browsers clamp an element near 33.5 million pixels

const STATISTICS = ["min", "max", "mean", "std", "norm", "nan", "posinf", "neginf", "zeros"];
const HEATS = ["std", "norm", "max", "min", "mean", "zeros", "error"];

/** @typedef {{ store: Store, root: any, say: (text: string) => void, live?: any }} View */
/** @typedef {(view: View) => { el: HTMLElement, update: (topics: string[]) => void }} MakePane */

/** Name and detail of a node. @param {Store} store @param {Tree} tree */
export function nodeText(store, tree, node) {
  const { data } = store.trace;
  const ref = tree.ref[node];
  switch (tree.kind[node]) {
    case KIND.module: return moduleText(store, tree, node);
    case KIND.file: return { name: ref < 0 ? "(no source line)" : String(data.frames[ref][0]).split(/[\\/]/).pop(), detail: "" };
    case KIND.line: return { name: String(data.frames[ref][1]), detail: sourceLine(data, data.frames[ref]).trim() };
    case KIND.op: return { name: data.ops[ref], detail: `× ${count(tree.children[node])}` };
    case KIND.fold: return { name: data.modules[ref][0].replace(/\d+$/, "*"), detail: `${data.modules[ref][1]} × ${tree.children[node]}` };
    case KIND.phase: return { name: data.phases[ref], detail: "" };
    case KIND.call: return { name: siteText(store.trace, ref).replace(/:.*$/, ""), detail: plural(tree.leaves[node], "output") };
    default: return { name: siteText(store.trace, ref), detail: siteDetail(store, ref) };
  }
}

/** A module's path below the module above it, and its class.
 * @param {Store} store @param {Tree} tree */
function moduleText(store, tree, node) {
  const { modules } = store.trace.data;
  const [path, kind, aliases] = modules[tree.ref[node]];
  if (path === "") return { name: kind || "model", detail: "" };
  const parent = tree.parent[node];
  const above = parent >= 0 && tree.kind[parent] === KIND.module ? modules[tree.ref[parent]][0] : "";
  const name = above && path.startsWith(`${above}.`) ? path.slice(above.length + 1) : path;
  const also = aliases.length ? ` also ${aliases.join(", ")}` : "";
  return { name, detail: kind + also };
}

/** @param {Store} store */
function siteDetail(store, row) {
  const { data, columns } = store.trace;
  const parameter = columns.parameter[row];
  if (parameter >= 0) return data.parameters[parameter];
  if (store.ui.view === "modules") return lineLabel(data, columns.stack[row]);
  return data.modules[columns.module[row]][0] || data.modules[columns.module[row]][1];
}

/** @param {number} stack */
function lineLabel(data, stack) {
  const frames = data.stacks[stack];
  return frames?.length ? frameText(data.frames[frames[0]]) : "";
}

/** Text of a source line, if it was kept. */
function sourceLine(data, frame) {
  const text = data.sources[frame[0]];
  return text === undefined ? "" : (text.split("\n")[frame[1] - 1] ?? "");
}

/** The first site at or below a node. @param {Tree} tree */
function firstRow(tree, node) {
  let at = node;
  while (tree.kind[at] !== KIND.site) at += 1;
  return tree.ref[at];
}

/** @type {MakePane} */
function treePane(view) {
  const { store } = view;
  const spacer = h("div.spacer");
  const rows = h("div.rows");
  const grid = h("div.grid", {
    role: "treegrid", tabindex: 0, "aria-label": "calls of the step",
  }, spacer, rows);
  const heat = select(store.ui.heat, HEATS.map((name) => [name, name]), (value) => {
    store.ui.heat = value;
    store.changed("tree");
  }, { "aria-label": "heat column" });
  const heads = h("div.heads", null,
    h("span", null, "site"), h("span", null, "phase"), h("span.right", null, "sites"),
    h("span", null, "type"), heat);
  const empty = h("div.empty");
  const el = h("section.pane.tree", { "aria-label": "tree", "data-name": "tree" }, heads, grid, empty);
  const pane = { grid, room: 400, rows, spacer, empty, heat, ids: `fi${Math.random().toString(36).slice(2)}` };
  grid.addEventListener("scroll", () => paintRows(view, pane), { passive: true });
  grid.addEventListener("keydown", (event) => treeKey(view, pane, event));
  new ResizeObserver(() => {
    pane.room = grid.clientHeight; // here: painting reads no layout
    heads.style.paddingRight = `${grid.offsetWidth - grid.clientWidth + 8}px`;
    paintRows(view, pane);
  }).observe(grid);
  return {
    el,
    update(topics) {
      if (topics.some((t) => ["trace", "tree", "plan", "run", "site", "reveal", "hello"].includes(t))) paintRows(view, pane);
      if (topics.includes("reveal")) scrollTo(view, pane);
      heat.value = store.ui.heat;
    },
  };
}

/** @param {View} view */
function paintRows(view, pane) {
  const shown = view.store.visible();
  const size = shown ? shown.nodes.length : 0;
  pane.empty.hidden = size > 0;
  pane.grid.hidden = size === 0;
  if (!size) return pane.empty.replaceChildren(emptyText(view.store, shown));
  const full = size * ROW;
  const height = Math.min(full, TALLEST);
  pane.spacer.style.height = `${height}px`;
  const { room } = pane;
  const top = pane.grid.scrollTop;
  const share = full === height ? 1 : (full - room) / Math.max(1, height - room);
  const offset = top * share;
  const first = Math.max(0, Math.floor(offset / ROW) - 2);
  const last = Math.min(size, first + Math.ceil(room / ROW) + 5);
  pane.rows.style.transform = `translateY(${top - (offset - first * ROW)}px)`;
  pane.grid.setAttribute("aria-rowcount", String(size));
  const painted = [];
  for (let at = first; at < last; at += 1) painted.push(rowElement(view, pane, shown, at));
  pane.rows.replaceChildren(...painted);
  const active = painted.find((row) => Number(row.dataset.node) === view.store.ui.node);
  if (active) pane.grid.setAttribute("aria-activedescendant", active.id);
  else pane.grid.removeAttribute("aria-activedescendant");
}

/** @param {Store} store */
function emptyText(store, shown) {
  if (!store.trace) return store.state.state === "tracing" ? "tracing …" : "no trace yet";
  if (shown.problem) return `cannot read the search: ${shown.problem}`;
  if (!store.trace.size) return "the step made no call";
  return "no site fits the search and the phases";
}

/** @param {View} view */
function rowElement(view, pane, shown, at) {
  const { store } = view;
  const { tree, nodes } = shown;
  const node = nodes[at];
  const branch = isBranch(tree, node);
  const open = branch && store.opened()[node] === 1;
  const row = firstRow(tree, node);
  const leaf = tree.kind[node] === KIND.site;
  const { name, detail } = nodeText(store, tree, node);
  const trace = store.trace;
  const element = h("div.row", {
    role: "row", id: `${pane.ids}-${node}`, "data-node": node, "aria-rowindex": at + 1,
    "aria-level": tree.depth[node] + 1, "aria-expanded": branch ? String(open) : undefined,
    "aria-selected": node === store.ui.node,
    onclick: () => {
      chooseNode(view, pane, node);
      if (leaf) showPane(store, "site");
    },
    ondblclick: () => branch && toggle(view, node),
  },
  h("span.name", { role: "gridcell", style: `padding-left:${tree.depth[node] * 14}px`, title: clip(`${name} ${detail}`, 400) },
    h("span.twist", { onclick: (e) => { e.stopPropagation(); toggle(view, node); } }, branch ? (open ? "▾" : "▸") : ""),
    leaf ? armedBox(store, row) : null,
    h(`span.label.k${tree.kind[node]}`, null, clip(name)),
    h("span.detail", null, clip(detail))),
  h("span", { role: "gridcell" }, uniform(tree, node, trace) ? phaseTag(trace.data.phases[trace.columns.phase[row]]) : null),
  h("span.right.num", { role: "gridcell" }, leaf ? "" : count(shown.found[node])),
  h("span.type", { role: "gridcell" }, leaf ? typeText(store, row) : ""),
  h("span", { role: "gridcell" }, heatCell(store, shown, node)));
  return element;
}

/** Whether a node is in one phase only, as far as its kind tells. @param {Tree} tree @param {Trace} trace */
function uniform(tree, node, trace) {
  if (tree.kind[node] > KIND.op) return tree.kind[node] !== KIND.fold;
  if (tree.kind[node] !== KIND.op) return false;
  return trace.columns.phase[firstRow(tree, node)] === trace.columns.phase[tree.ref[tree.end[node] - 1]];
}

/** @param {Store} store */
function typeText(store, row) {
  return `${dtypeText(store.dtypeOf(row))} ${shapeText(store.shapeOf(row))}`;
}

/** Solid only when the kernel has confirmed. @param {Store} store */
function armedBox(store, row) {
  const armed = store.armed.has(row);
  const state = store.pending.has(row) ? "pending" : armed ? "armed" : "free";
  return h("span.box", {
    role: "checkbox", "data-state": state, "aria-checked": armed,
    "aria-label": "armed", title: store.armed.get(row)?.join(", ") ?? "arm",
    onclick: (event) => {
      event.stopPropagation();
      if (!store.readonly) store.toggleArmed(row).catch((error) => store.note("error", error.message));
    },
  }, armed ? "✓" : "");
}

/** NaN and infinities first, else the heat bar. @param {Store} store */
function heatCell(store, shown, node) {
  const row = firstRow(shown.tree, node);
  const leaf = shown.tree.kind[node] === KIND.site;
  if (store.ui.heat === "error" && store.errors) {
    if (shown.broken[node] > 0) return h("span.chip.bad", { title: "not finite, unlike the golden run" }, leaf ? `NaN/Inf +${count(store.errors.bad[row])}` : "NaN/Inf");
    if (shown.changed[node] === 0) return h("span.note", { title: "equal bit for bit" }, "=");
  } else if (shown.bad[node] > 0) return h("span.chip.bad", null, leaf ? badText(store, row) : "NaN/Inf");
  if (!shown.heat || shown.heat.most[node] < 0) return null;
  const value = shown.heat.most[node];
  const { low, high } = shown.heat;
  const share = value <= 0 ? 0 : high <= low ? 1 : Math.max(0.02, Math.log(value / low) / Math.log(high / low));
  return h("span.heat", { title: `${store.ui.heat} ${exact(value)}` },
    h("span.bar", { style: `width:${(Math.min(1, share) * 100).toFixed(0)}%` }), h("span.heatnum", null, short(value)));
}

/** @param {Store} store */
function badText(store, row) {
  const { nan, posinf, neginf } = store.trace.columns;
  return nan[row] ? `NaN ${count(nan[row])}` : `${posinf[row] ? "+" : "−"}Inf ${count(posinf[row] + neginf[row])}`;
}

/** @param {View} view */
function toggle(view, node) {
  const open = view.store.opened();
  if (!isBranch(view.store.tree(), node)) return;
  open[node] = open[node] ? 0 : 1;
  view.store.changed("tree");
}

/** @param {View} view */
function chooseNode(view, pane, node) {
  const { store } = view;
  const tree = store.tree();
  const kind = tree.kind[node];
  store.ui.node = node;
  if (kind === KIND.site || kind === KIND.call) store.select(firstRow(tree, node));
  const { name, detail } = nodeText(store, tree, node);
  view.say(`${clip(name)} ${clip(detail)}`);
  store.changed("tree");
  pane.grid.focus({ preventScroll: true });
}

/** Where not all panes have room, show this one. @param {Store} store */
function showPane(store, name) {
  store.ui.pane = name;
  store.changed("pane");
}

/** @param {View} view */
function scrollTo(view, pane) {
  const shown = view.store.visible();
  if (!shown) return;
  const at = shown.nodes.indexOf(view.store.ui.node);
  if (at < 0) return;
  const full = shown.nodes.length * ROW;
  const height = Math.min(full, TALLEST);
  const room = pane.grid.clientHeight;
  const share = full === height ? 1 : (full - room) / (height - room);
  const top = pane.grid.scrollTop * share;
  if (at * ROW < top) pane.grid.scrollTop = (at * ROW) / share;
  else if ((at + 1) * ROW > top + room) pane.grid.scrollTop = ((at + 1) * ROW - room) / share;
  paintRows(view, pane);
}

/** Where each key goes. @type {Record<string, (at: number, size: number) => number>} */
const MOVES = {
  ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (_, size) => size - 1,
  PageDown: (at) => at + 15, PageUp: (at) => at - 15,
};

/** @param {View} view @param {KeyboardEvent} event */
function treeKey(view, pane, event) {
  const { store } = view;
  const shown = store.visible();
  if (!shown || !shown.nodes.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = shown.nodes.indexOf(store.ui.node);
  const go = (to) => {
    const bound = Math.max(0, Math.min(shown.nodes.length - 1, to));
    chooseNode(view, pane, shown.nodes[bound]);
    scrollTo(view, pane);
  };
  if (treeAction(view, event, at, go)) event.preventDefault();
}

/** @param {View} view @param {KeyboardEvent} event @param {(to: number) => void} go */
function treeAction(view, event, at, go) {
  const { store } = view;
  const { tree, nodes } = store.visible();
  const node = nodes[at];
  const branch = at >= 0 && isBranch(tree, node);
  const open = branch && store.opened()[node] === 1;
  if (event.key in MOVES) go(at < 0 ? 0 : MOVES[event.key](at, nodes.length));
  else if (at < 0) return false;
  else if (event.key === "ArrowRight") !branch || open ? branch && go(at + 1) : toggle(view, node);
  else if (event.key === "ArrowLeft") branch && open ? toggle(view, node) : tree.parent[node] >= 0 && go(nodes.indexOf(tree.parent[node]));
  else if (event.key === "*") openSiblings(store, tree, node);
  else if (event.key === "Enter") enter(view, tree, node);
  else if (event.key === " ") armNode(store, tree, node);
  else if (event.key.length === 1 && event.key !== "/") typeAhead(view, event.key, at, go);
  else return false;
  return true;
}

/** @param {Store} store @param {Tree} tree */
function openSiblings(store, tree, node) {
  const open = store.opened();
  for (let at = 0; at < tree.size; at += 1) if (tree.parent[at] === tree.parent[node]) open[at] = 1;
  store.changed("tree");
}

/** @param {View} view @param {Tree} tree */
function enter(view, tree, node) {
  if (tree.kind[node] !== KIND.site && tree.kind[node] !== KIND.call) return toggle(view, node);
  showPane(view.store, "site");
  view.root.querySelector(".fi-site")?.focus();
}

/** @param {Store} store @param {Tree} tree */
function armNode(store, tree, node) {
  if (store.readonly || tree.kind[node] !== KIND.site) return;
  store.toggleArmed(tree.ref[node]).catch((error) => store.note("error", error.message));
}

/** @param {View} view @param {(to: number) => void} go */
function typeAhead(view, key, at, go) {
  const { store } = view;
  const { tree, nodes } = store.visible();
  const now = Date.now();
  const typed = now - (store.ui.typedAt ?? 0) < 700 ? store.ui.typed + key : key;
  store.ui.typed = typed.toLowerCase();
  store.ui.typedAt = now;
  const start = typed.length === 1 ? 1 : 0;
  for (let step = start; step < Math.min(nodes.length, 20_000) + start; step += 1) {
    const to = (at + step) % nodes.length;
    if (nodeText(store, tree, nodes[to]).name.toLowerCase().startsWith(store.ui.typed)) return go(to);
  }
}

/** Views, search, count and the phase strip. @type {MakePane} */
function headPane(view) {
  const { store } = view;
  const tabs = h("div.tabs", { role: "group", "aria-label": "view of the tree" });
  const box = h("input.search", {
    type: "search", spellcheck: "false", "aria-label": "search the calls",
    placeholder: "search:  relu  op:mm  phase:backward  module:conv1  bad:nan  armed:",
    oninput: () => {
      store.ui.query = box.value;
      store.changed("tree");
    },
  });
  const found = h("span.found", { role: "status" });
  const phases = h("div.phases", { role: "group", "aria-label": "phases" });
  const el = h("div.head", null, tabs, box, found, phases);
  return {
    el,
    update(topics) {
      if (!topics.some((t) => ["trace", "tree", "run", "plan", "reveal"].includes(t))) return;
      if (box.value !== store.ui.query) box.value = store.ui.query;
      tabs.replaceChildren(...VIEWS.map((name) => viewTab(store, name)));
      found.replaceChildren(foundText(store), " ", alertButton(store));
      phases.replaceChildren(...phaseButtons(store));
    },
  };
}

/** @param {Store} store */
function viewTab(store, name) {
  const titles = { modules: "Modules", source: "Source lines", operators: "Operators", timeline: "Timeline" };
  return button(titles[name], () => {
    store.ui.view = name;
    if (store.ui.row >= 0) store.reveal(store.ui.row);
    else {
      store.ui.node = -1;
      store.changed("tree");
    }
  }, { "aria-pressed": store.ui.view === name }, "tab");
}

/** How many outputs are not finite, by cause; a click goes to the next that began it.
 * @param {Store} store */
function alertButton(store) {
  const { alert } = store.trace?.columns ?? {};
  const [, critical, high, medium] = [0, 1, 2, 3].map((kind) => alert?.filter((each) => each === kind).length);
  if (!critical && !high && !medium) return "";
  const next = () => {
    const wanted = critical ? 1 : 2;
    const after = alert.indexOf(wanted, store.ui.row + 1);
    store.reveal(after < 0 ? alert.indexOf(wanted) : after);
  };
  return button(`⚠ ${count(critical + high)} not finite: ${critical} began here`, next, {
    title: `critical ${critical}: finite in, not out; high ${high}: bad in and out; medium ${medium}: bad in, finite out`,
  }, "alert");
}

/** Always "n of N". @param {Store} store */
function foundText(store) {
  const shown = store.visible();
  return shown ? `${count(shown.total)} of ${plural(store.trace.size, "site")}` : "";
}

/** @param {Store} store */
function phaseButtons(store) {
  if (!store.trace) return [];
  const { data, columns, size } = store.trace;
  const sizes = new Int32Array(data.phases.length);
  for (const phase of columns.phase) sizes[phase] += 1;
  const fold = 1 << data.flags.indexOf("folded");
  let folded = 0;
  for (let row = 0; row < size; row += 1) if (columns.flags[row] & fold) folded += 1;
  const strip = data.phases.map((name, phase) =>
    sizes[phase] ? phaseButton(store, name, phase, sizes[phase]) : null).filter(Boolean);
  if (folded) {
    strip.push(button(`folded ${count(folded)}`, () => {
      store.ui.folded = !store.ui.folded;
      store.changed("tree");
    }, { "aria-pressed": store.ui.folded, title: "detach, profiler and factory calls" }, "toggle"));
  }
  return strip;
}

/** @param {Store} store @param {number} size */
function phaseButton(store, name, phase, size) {
  const shown = !store.ui.hidden.has(phase);
  return button(`${name} ${count(size)}`, () => {
    if (shown) store.ui.hidden.add(phase);
    else store.ui.hidden.delete(phase);
    store.changed("tree");
  }, { "aria-pressed": shown, "data-phase": name }, "toggle");
}

// ---- 10. Site pane ----

/** @type {MakePane} */
function sitePane(view) {
  const { store } = view;
  const facts = h("div.facts");
  const values = h("div.values");
  const form = formPart(view);
  const plan = planPart(view);
  const empty = h("div.empty", null, "Choose a call in the tree to see its line and values, and what can go wrong there.");
  const body = h("div.body", null, empty, facts, values, form.el, plan.el);
  const el = h("section.pane.site", { "aria-label": "site", tabindex: -1, "data-name": "site" }, body);
  return {
    el,
    update(topics) {
      const chosen = store.trace !== null && store.ui.row >= 0;
      empty.hidden = chosen;
      facts.hidden = values.hidden = form.el.hidden = !chosen;
      plan.update(topics);
      if (chosen && topics.some((t) => ["trace", "site", "frame"].includes(t))) {
        fill(facts, siteFacts(view, store.ui.row));
      }
      if (chosen && topics.some((t) => ["site", "values"].includes(t))) {
        fill(values, siteValues(view));
      }
      if (chosen) form.update(topics);
    },
  };
}

/** @param {View} view */
function siteFacts(view, row) {
  const { store } = view;
  const { data, columns } = store.trace;
  const flags = data.flags.filter((_, bit) => columns.flags[row] & (1 << bit) && data.flags[bit] !== "folded");
  return [
    h("h3.title", null, siteText(store.trace, row), " ", phaseTag(data.phases[columns.phase[row]]),
      h("span.type", null, ` ${typeText(store, row)}`), flags.map((flag) => h("span.chip", null, flag))),
    breadcrumb(view, row),
    callSelector(view, row),
    sourceExcerpt(view, row),
    statistics(store, row),
  ];
}

/** Modules above the site; each leads to its place in the tree. @param {View} view */
function breadcrumb(view, row) {
  const { store } = view;
  const { data, columns } = store.trace;
  const [path, kind] = data.modules[columns.module[row]];
  const parts = kind && path ? path.split(".") : [];
  const go = (query) => {
    store.ui.query = query;
    store.changed("tree", "reveal");
  };
  const root = data.modules.find(([each]) => each === "");
  return h("nav.crumbs", { "aria-label": "module" },
    kind ? button(root?.[1] || "model", () => go(""), {}, "link") : h("span", null, path),
    parts.map((part, i) => [h("span", { "aria-hidden": "true" }, " › "),
      button(clip(part, 60), () => go(`module:${parts.slice(0, i + 1).join(".")}`), {}, "link")]),
    columns.parameter[row] >= 0 ? h("span", null, ` · ${clip(data.parameters[columns.parameter[row]])}`) : null);
}

/** Rows of the same operator and output, in execution order. */
function kin(trace, row) {
  const { op, output, counted, index } = trace.columns;
  const rows = [];
  for (let at = 0; at < trace.size; at += 1) {
    if (op[at] === op[row] && output[at] === output[row] && counted[at] === counted[row] && index[at] === index[row]) rows.push(at);
  }
  return rows;
}

/** "call k of n" with a curve over the calls, and the call's other outputs.
 * @param {View} view */
function callSelector(view, row) {
  const { store } = view;
  const { columns, data } = store.trace;
  const rows = kin(store.trace, row);
  const at = rows.indexOf(row);
  const step = (by) => store.reveal(rows[at + by]);
  const calls = rows.slice(0, 400).map((each) => columns.std[each]);
  const outputs = [];
  for (let each = row; each >= 0 && columns.call[each] === columns.call[row]; each -= 1) outputs.unshift(each);
  for (let each = row + 1; each < store.trace.size && columns.call[each] === columns.call[row]; each += 1) outputs.push(each);
  return h("div.calls", null,
    button("‹", () => step(-1), { disabled: at <= 0, "aria-label": "previous call" }, "small"),
    h("span.num", null, `call ${at + 1} of ${rows.length}`),
    button("›", () => step(1), { disabled: at + 1 >= rows.length, "aria-label": "next call" }, "small"),
    rows.length > 1 ? sparkline(calls, Math.min(at, 399)) : null,
    outputs.length > 1 ? select(String(row), outputs.slice(0, 300).map((each) => [String(each),
      `output ${columns.output[each]}${columns.index[each] < 0 ? "" : `[${columns.index[each]}]`}`]),
    (value) => store.reveal(Number(value)), { "aria-label": "output" }) : null);
}

/** How many calls ran below each line of a file. @param {string} file */
function gutter(trace, file) {
  const { frames, stacks } = trace.data;
  const lines = stacks.map((stack) => new Set(stack.filter((f) => frames[f][0] === file).map((f) => frames[f][1])));
  const calls = new Map();
  const { stack, call } = trace.columns;
  for (let row = 0; row < trace.size; row += 1) {
    if (row && call[row] === call[row - 1]) continue;
    for (const line of lines[stack[row]]) calls.set(line, (calls.get(line) ?? 0) + 1);
  }
  return calls;
}

/** The line that made the call, marked, with its callers to choose from.
 * @param {View} view */
function sourceExcerpt(view, row) {
  const { store } = view;
  const { data, columns } = store.trace;
  const both = [...data.stacks[columns.stack[row]], ...data.stacks[columns.own_stack[row]]];
  const frames = [...new Set(both)].map((each) => data.frames[each]);
  if (!frames.length) return h("div.empty", null, "no source line: the call was made outside your code");
  const frame = frames[Math.min(store.ui.frame, frames.length - 1)];
  const text = data.sources[frame[0]];
  const tabs = frames.map((each, i) => button(clip(frameText(each), 40), () => {
    store.ui.frame = i;
    store.changed("frame");
  }, { "aria-pressed": each === frame, title: `${each[0]}:${each[1]} in ${each[2]}` }, "tab"));
  const lines = text === undefined ? [h("div.empty", null, "the source text was not kept")]
    : excerpt(text.split("\n"), frame[1], gutter(store.trace, frame[0]));
  return h("div.source", null, h("div.tabs", null, tabs), h("div.code", null, lines));
}

/** @param {string[]} lines @param {number} marked @param {Map<number, number>} calls */
function excerpt(lines, marked, calls) {
  const first = Math.max(1, marked - 2);
  return lines.slice(first - 1, marked + 2).map((text, i) => {
    const line = first + i;
    return h("div.line", { "data-marked": line === marked },
      h("span.gutter", { title: "calls below this line" }, calls.has(line) ? `${count(calls.get(line))}×` : ""),
      h("span.lineno", null, String(line)), h("span.text", null, clip(text, 300)));
  });
}

/** @param {Store} store */
function statistics(store, row) {
  const stats = store.site?.row === row ? store.site.stats : Object.fromEntries(
    STATISTICS.map((name) => [name, store.trace.columns[name][row]]));
  const numel = store.shapeOf(row).reduce((a, b) => a * b, 1);
  if (stats.zeros < 0) return h("div.empty", null, "no statistics were taken here");
  const cell = (name, value, bad) => h("div.stat", { "data-bad": bad }, h("span.key", null, name), value);
  return h("div.stats", { role: "group", "aria-label": "statistics" },
    ["min", "max", "mean", "std", "norm"].map((name) => cell(name, figure(stats[name]))),
    [["NaN", stats.nan], ["+Inf", stats.posinf], ["−Inf", stats.neginf]].map(([name, n]) => cell(name, count(n), n > 0)),
    cell("zeros", h("span.num", { title: `${stats.zeros} of ${numel}` }, numel ? `${short((100 * stats.zeros) / numel)} %` : "–")),
    cell("elements", count(numel)));
}

/** The values, where they are kept: array view and bit lens. @param {View} view */
function siteValues(view) {
  const { store } = view;
  const { site, ui } = store;
  if (store.readonly || !site || site.row !== ui.row) return [];
  if (!site.values) {
    return [h("div.empty", null, site.why ?? "the values of this call are not kept. ",
      site.recordable ? button("Read values", () => readValues(store), { title: "runs the golden step up to this call" }, "small") : null)];
  }
  return [arrayView(view, site), bitLens(view, site)];
}

/** @param {Store} store */
async function readValues(store) {
  await store.tell("record", { row: store.ui.row });
  store.inspect();
}

/** Colour of a value as red, green, blue and opacity: zero is the page itself.
 * @param {number} value @param {number} most */
function colourOf(value, most) {
  if (Number.isNaN(value)) return [216, 0, 216, 255];
  if (!Number.isFinite(value)) return [255, 200, 0, 255];
  const opacity = Math.round(255 * Math.cbrt(Math.abs(value) / most));
  return value < 0 ? [59, 130, 246, opacity] : [232, 89, 12, opacity];
}

/** The tensor as a picture of its last two axes; a click chooses an element.
 * @param {View} view */
function arrayView(view, site) {
  const { store } = view;
  const { rows, cols, fixed, shape, origin } = site.values;
  const grid = Float64Array.from(site.values.grid, number);
  const most = grid.reduce((a, b) => (Number.isFinite(b) ? Math.max(a, Math.abs(b)) : a), 0) || 1;
  const canvas = h("canvas.array", { width: cols, height: rows, role: "img", "aria-label": "values of the last two axes" });
  const paint = canvas.getContext("2d");
  const image = paint.createImageData(cols, rows);
  grid.forEach((value, i) => image.data.set(colourOf(value, most), i * 4));
  paint.putImageData(image, 0, 0);
  const hover = h("span.num", null, " ");
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows))),
      Math.min(cols - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * cols)))];
  };
  const full = (place) => (shape.length
    ? [...fixed, place[0] + origin[0], place[1] + origin[1]].slice(-shape.length) : []);
  canvas.addEventListener("mousemove", (event) => {
    const [r, c] = at(event);
    hover.textContent = `[${full([r, c]).join(", ")}]  ${short(grid[r * cols + c])}`;
  });
  canvas.addEventListener("click", (event) => choose(store, full(at(event))));
  const side = Math.max(3, Math.min(22, Math.floor(384 / cols), Math.floor(192 / rows)));
  const [row, col] = [0, 0, ...site.element.index].slice(-2);
  const mark = h("span.mark", { style: `left:${((col - origin[1]) / cols) * 100}%;top:${((row - origin[0]) / rows) * 100}%;width:${100 / cols}%;height:${100 / rows}%` });
  const frame = h("div.frame", { style: `width:${cols * side}px;height:${rows * side}px` }, canvas, mark);
  return h("div.arraybox", null, sliders(store, site), frame,
    h("div.note", null, hover, h("span", null, ` blue −${short(most)} · orange +${short(most)} · NaN magenta · Inf yellow`)));
}

/** Sliders over the axes before the last two. @param {Store} store */
function sliders(store, site) {
  return site.values.fixed.map((value, axis) => h("label.slider", null, `axis ${axis}`,
    h("input", { type: "range", min: 0, max: site.values.shape[axis] - 1, value,
      onchange: (event) => {
        const element = [...store.ui.element];
        element[axis] = Number(event.target.value);
        choose(store, element);
      } }), h("span.num", null, String(value))));
}

/** Choose an element; the form aims at it. @param {Store} store @param {number[]} element */
function choose(store, element) {
  store.ui.element = element;
  store.ui.form.extent = "index";
  store.changed("element");
  store.inspect();
}

/** The chosen element as its bits; a click on one shows the value that it makes.
 * @param {View} view */
function bitLens(view, site) {
  const { store } = view;
  const dtype = store.dtypeOf(site.row);
  const size = width(dtype);
  const element = site.element;
  if (!element || !size || element.bits === null) return h("div");
  const bits = BigInt(`0x${element.bits}`);
  const form = store.ui.form;
  const flipped = form.model === "bitflip" && Number.isInteger(form.parameters.bit) ? form.parameters.bit : -1;
  const boxes = [];
  for (let bit = size - 1; bit >= 0; bit -= 1) {
    const field = fieldOf(dtype, bit);
    const value = decodeBits(dtype, bits ^ (1n << BigInt(bit)));
    boxes.push(h("button.bit", {
      type: "button", "data-field": field, "aria-pressed": bit === flipped, "data-bit": bit,
      title: `flip bit ${bit} (${field}): ${short(element.value)} → ${short(value)}`,
      onclick: () => {
        store.ui.form = { ...form, model: "bitflip", parameters: { bit }, extent: "index" };
        store.refocus = `[data-bit="${bit}"]`;
        store.changed("form", "values");
      },
    }, String((bits >> BigInt(bit)) & 1n)));
  }
  const after = flipped >= 0 && flipped < size ? decodeBits(dtype, bits ^ (1n << BigInt(flipped))) : null;
  return h("div.lens", { role: "group", "aria-label": "bits of the chosen element" },
    h("div.lenshead", null, h("span", null, `element [${element.index.join(", ")}] = `), figure(element.value, hexText(element.bits, dtype)),
      after === null ? h("span.note", null, "  click a bit to flip it") : [h("span", null, " → "), figure(after), h("span.note", null, `  ${bitsText(dtype, [flipped])}`)]),
    h("div.bits", null, boxes));
}

// ---- 11. Fault form ----

/** @type {MakePane} */
function formPart(view) {
  const { store } = view;
  const fields = h("div.fields");
  const preview = h("div.preview");
  const problem = h("div.problem", { role: "alert" });
  const arm = button("Arm", () => submit(), {}, "primary");
  const submit = () => {
    problem.textContent = "";
    arm.disabled = true;
    store.arm(store.ui.row).then(() => view.say("armed"))
      .catch((error) => { problem.textContent = error.message; })
      .finally(() => { arm.disabled = false; });
  };
  const el = h("form.form", { "aria-label": "fault", onsubmit: (event) => { event.preventDefault(); submit(); } },
    h("h4", null, "Fault"), fields, preview, problem, h("div.actions", null, arm));
  const look = () => {
    problem.textContent = "";
    askPreview(store, preview, problem);
  };
  return {
    el,
    update(topics) {
      if (store.readonly) el.hidden = true;
      if (topics.some((t) => ["site", "form", "hello", "element"].includes(t))) {
        fill(fields, formFields(store, look));
      }
      if (topics.some((t) => ["form", "element", "values"].includes(t))) look();
      if (topics.includes("site")) preview.replaceChildren();
    },
  };
}

/** @param {string} [hint] */
function field(text, control, hint = "") {
  return h("label.field", { title: hint }, h("span.key", null, text), control);
}

/** A text box that tells its value. @param {(text: string) => void} set */
function input(value, set, props = {}) {
  return h("input.input", { value: value ?? "", spellcheck: "false", ...props,
    oninput: (event) => set(event.target.value) });
}

/** @param {Store} store @param {() => void} look */
function formFields(store, look) {
  const form = store.ui.form;
  const model = store.hello.models.find((each) => each.name === form.model) ?? store.hello.models[0];
  if (!model) return [];
  const set = (name) => (text) => {
    form[name] = text;
    look();
  };
  const again = (change) => {
    Object.assign(form, change);
    store.changed("form", "values");
  };
  const selection = (store.hello.selections ?? []).find((each) => each.name === form.extent);
  const extents = (store.hello.selections ?? []).map((each) => [each.name, each.name === "index" ? "one element" : each.name]);
  return [
    field("fault model", modelSelect(store, model, (name) => again({ model: name, parameters: {} })), model.summary),
    h("div.note", null, model.summary, model.source ? h("span.cite", { title: model.source }, " [source]") : null),
    ...model.parameters.map((parameter) => parameterField(store, parameter)),
    field("elements", select(form.extent, extents, (extent) => again({ extent, extentText: "" })), selection?.summary ?? ""),
    form.extent === "index" ? field("index", input(store.ui.element.join(", "), (text) => setElement(store, text), { "aria-label": "index of the element" }))
      : selection && selection.example !== null ? field("which", input(form.extentText, set("extentText"), { placeholder: selection.example }), selection.summary) : null,
    field("steps", input(form.steps, set("steps"), { size: 6 }), "0, or 2,5-7,10-; counted from 0"),
    field("seed", input(form.seed, set("seed"), { size: 6, inputmode: "numeric" }), "seed of the fault's own draws"),
    h("details.more", null, h("summary", null, "more"),
      field("probability", input(form.probability, set("probability"), { placeholder: "1" })),
      field("times at most", input(form.times, set("times"), { placeholder: "no limit" })),
      field("scope", select(form.scope ?? "", [["", "value"], ["storage", "storage"]], set("scope")), "storage: a view's base is written, so that the fault persists")),
  ];
}

/** @param {Store} store @param {(name: string) => void} choose_ */
function modelSelect(store, model, choose_) {
  const box = h("select.select", { onchange: () => choose_(box.value), "aria-label": "fault model" });
  const groups = new Map();
  for (const each of store.hello.models) {
    if (!groups.has(each.group)) groups.set(each.group, h("optgroup", { label: each.group }));
    groups.get(each.group).append(h("option", { value: each.name }, each.name));
  }
  box.append(...groups.values());
  box.value = model.name;
  return box;
}

/** @param {Store} store */
function parameterField(store, parameter) {
  const { parameters } = store.ui.form;
  const { name, type, summary, unit } = parameter;
  const set = (text) => {
    const value = typed(type, text);
    if (value === null) delete parameters[name];
    else parameters[name] = value;
    store.changed("values");
  };
  const known = parameters[name];
  const shown = known === undefined ? "" : typeof known === "object" ? JSON.stringify(known) : String(known);
  const hint = parameter.default === null ? (parameter.required ? "required" : "") : String(parameter.default);
  const choices = type === "bool" ? ["true", "false"] : parameter.choices;
  const control = choices.length
    ? select(shown, [["", hint || "–"], ...choices.map((each) => [String(each), String(each)])], set)
    : input(shown, set, { placeholder: hint, "aria-required": parameter.required });
  return field(unit ? `${name} (${unit})` : name, control, summary);
}

/** What a person typed, as the kernel expects it; null is not given.
 * @param {string} type */
export function typed(type, text) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  if (type === "bool") return trimmed === "true";
  if (type === "str" || type === "choice") return /^-?\d+$/.test(trimmed) && type === "choice" ? Number(trimmed) : trimmed;
  try {
    return JSON.parse(trimmed.replace(/^\+/, ""));
  } catch {
    const x = Number(trimmed);
    return Number.isNaN(x) || !Number.isFinite(x) ? trimmed : x;
  }
}

/** @param {Store} store */
function setElement(store, text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean).map(Number);
  const shape = store.shapeOf(store.ui.row);
  if (parts.length !== shape.length || parts.some((x, axis) => !Number.isInteger(x) || x < 0 || x >= shape[axis])) return;
  store.ui.element = parts;
  store.inspect();
}

/** Show what the fault would do to the recorded values. @param {Store} store */
function askPreview(store, place, problem) {
  clearTimeout(store.previewTimer);
  const { row } = store.ui;
  if (store.readonly || store.lost || row < 0 || !store.site?.values) return;
  store.previewTimer = setTimeout(async () => {
    try {
      const found = await store.ask("preview", store.request(row));
      if (store.ui.row === row) place.replaceChildren(previewTable(found));
    } catch (error) {
      problem.textContent = error.message;
      place.replaceChildren();
    }
  }, 150);
}

function previewTable(found) {
  if (found.note) return h("div.note", null, found.note);
  return h("div", null, h("div.note", null, `preview: ${plural(found.changed, "element")} would change`),
    elementTable(found.elements.slice(0, 4), found.dtype, "preview"));
}

/** Elements before and after, with the bits that differ. @param {string} dtype */
function elementTable(elements, dtype, label = "changed elements") {
  return table(["element", "before", "after", "bits"], elements.map(({ index, before, after, bits }) => [
    h("span.num", null, `[${index.join(", ")}]`), figure(before), figure(after), bitsCell(bits, dtype)]), label);
}

/** @param {(string | null)[]} bits @param {string} dtype */
function bitsCell(bits, dtype) {
  const [before, after] = bits;
  if (before === null || after === null) return "–";
  const changed = changedBits(BigInt(`0x${before}`), BigInt(`0x${after}`));
  return h("span", null, h("span.mono", null, `${hexText(before, dtype)} → ${hexText(after, dtype)} `), h("span.note", null, bitsText(dtype, changed)));
}

// ---- 12. Plan ----

/** @type {MakePane} */
function planPart(view) {
  const { store } = view;
  const list = h("div.faults", { role: "list" });
  const tools = h("span.tools");
  const el = h("div.plan", { "aria-label": "plan", role: "group" }, h("h4", null, "Plan", tools), list);
  return {
    el,
    update(topics) {
      if (!topics.some((t) => ["plan", "run", "state", "hello"].includes(t))) return;
      const { faults, undo, redo } = store.plan;
      tools.replaceChildren(...(store.readonly ? [] : [
        button("undo", () => store.tell("undo"), { disabled: !undo }, "link"),
        button("redo", () => store.tell("redo"), { disabled: !redo }, "link")]));
      list.replaceChildren(...(faults.length ? faults.map((fault) => faultRow(view, fault))
        : [h("div.empty", null, "nothing is armed")]));
    },
  };
}

/** @param {View} view */
function faultRow(view, fault) {
  const { store } = view;
  const ran = store.run?.status[fault.id];
  const missed = store.run?.not_injected.find((each) => each.fault === fault.id);
  const status = !fault.enabled ? "off" : ran ?? "armed";
  const on = h("input", { type: "checkbox", checked: fault.enabled, disabled: store.readonly, "aria-label": `${fault.id} is on`,
    onchange: () => store.tell("enable", { fault: fault.id, on: on.checked }) });
  return h("div.fault", { role: "listitem", "data-status": status }, on,
    button(clip(fault.text, 220), () => store.reveal(fault.rows[0] ?? -1), { title: fault.code }, "link"),
    h("span.chip", { "data-status": status }, status),
    store.readonly ? null : button("×", () => store.tell("disarm", { fault: fault.id }), { "aria-label": `disarm ${fault.id}` }, "small"),
    missed ? h("div.note", null, missed.reason) : null);
}

// ---- 13. Result ----

const TABS = [["diff", "Tensor diff"], ["propagation", "Propagation"], ["training", "Training"], ["log", "Log"]];

/** @type {MakePane} */
function resultPane(view) {
  const { store } = view;
  const head = h("div.outcome");
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "result" });
  const body = h("div.body", { role: "tabpanel", tabindex: 0 });
  const el = h("section.pane.result", { "aria-label": "result", "data-name": "result" }, head, tabs, body);
  const choose_ = (name) => {
    store.ui.tab = name;
    store.changed("tab");
  };
  return {
    el,
    update(topics) {
      const { tab } = store.ui;
      const live = tab === "training" && topics.includes("steps");
      if (!live && !topics.some((t) => ["run", "figures", "tab", "log", "hello"].includes(t))) return;
      tabs.replaceChildren(...TABS.map(([name, text]) => button(text, () => choose_(name), { role: "tab", "aria-selected": tab === name }, "tab")));
      fill(head, outcome(store));
      if (topics.every((t) => t === "log") && tab !== "log") return;
      fill(body, PANELS[tab](view));
    },
  };
}

/** The outcome in one sentence, and the figures that a person asks first. @param {Store} store */
function outcome(store) {
  const { run } = store;
  if (!run) return [h("div.empty", null, "Arm a fault and press Replay: golden and faulty run of the step are compared here.")];
  const { comparison } = run;
  return [
    h("div.verdict", { "data-outcome": run.outcome.name, role: "status" }, h("strong", null, run.outcome.name.replaceAll("_", " ")),
      h("span", null, ` ${run.outcome.reason}`),
      run.outcome.detected_by.map((name) => h("span.chip", null, `detected by ${name}`))),
    run.not_injected.map(({ fault, reason }) => h("div.warning", null, `${fault} not injected: ${reason}`)),
    run.error ? h("div.warning", null, run.error) : null,
    h("div.tiles", null, tile("loss", comparison.loss), tile("gradient norm", comparison.gradient_norm),
      countTile("sites that differ", comparison.diverged, comparison.compared),
      countTile("gradients that differ", comparison.gradients.differing, comparison.gradients.total)),
  ];
}

/** @param {number} total */
function countTile(name, n, total) {
  return h("div.tile", null, h("span.key", null, name), h("span.big.num", null, count(n)), h("span.note", null, ` of ${count(total)}`));
}

/** Golden against faulty. */
function tile(name, difference) {
  const { golden, faulty, equal } = difference;
  return h("div.tile", null, h("span.key", null, name),
    h("span.big", null, figure(golden), equal ? h("span.equal", null, " = ") : " → ", figure(faulty)),
    h("span.note", null, equal ? " bit for bit" : ""));
}

/** What each tab shows. @type {Record<string, (view: View) => any[]>} */
const PANELS = { diff: diffPanel, propagation: propagationPanel, training: trainingPanel, log: logPanel };

/** @param {View} view */
function diffPanel(view) {
  const { store } = view;
  const injections = store.run?.injections ?? [];
  if (!injections.length) return [h("div.empty", null, store.run ? "no fault struck" : "no replay yet")];
  const at = Math.min(store.ui.injection, injections.length - 1);
  const injection = injections[at];
  const chooser = injections.length > 1 ? select(String(at), injections.map((each, i) => [String(i), `${each.fault} at ${each.site}, step ${each.step}`]), (value) => {
    store.ui.injection = Number(value);
    store.changed("tab");
  }, { "aria-label": "injection" }) : null;
  const suffix = at ? ` ${at}` : "";
  return [chooser,
    h("p.lead", null, button(injection.site, () => store.reveal(injection.row), {}, "link"),
      ` in ${clip(injection.module) || "the model"} (${injection.phase}), step ${injection.step}: `,
      `${plural(injection.changed, "element")} of ${count(injection.shape.reduce((a, b) => a * b, 1))} changed`,
      injection.kind === "functional" ? "" : ` (${injection.kind})`),
    injection.note ? h("div.warning", null, injection.note) : null,
    elementTable(injection.elements, injection.dtype),
    injection.changed > injection.elements.length ? h("div.note", null, `the first ${injection.elements.length} of ${count(injection.changed)}`) : null,
    beforeAfter(injection),
    plot(view, `tensor_diff${suffix}`), twin(view, `tensor_diff${suffix}`),
    store.figures.figures[`difference_heatmap${suffix}`] ? [plot(view, `difference_heatmap${suffix}`), twin(view, `difference_heatmap${suffix}`)] : null,
  ];
}

function beforeAfter({ before, after }) {
  const heads = { nan: "NaN", posinf: "+Inf", neginf: "−Inf" };
  return h("div.scroll", null, table(["run", ...STATISTICS.map((name) => heads[name] ?? name)], [
    ["before", ...STATISTICS.map((name) => figure(before[name]))],
    ["after", ...STATISTICS.map((name) => h("span", { "data-changed": before[name] !== after[name] }, figure(after[name])))],
  ], "statistics before and after"));
}

/** @param {View} view */
function propagationPanel(view) {
  const { store } = view;
  if (!store.run) return [h("div.empty", null, "no replay yet")];
  const { comparison } = store.run;
  const lead = comparison.first ? `The first call that differs is ${comparison.first}; ${count(comparison.diverged)} of ${plural(comparison.compared, "site")} differ.` : "No call differs.";
  const go = (point) => store.reveal(store.errors.golden[point.customdata]);
  return [h("p.lead", null, lead), comparison.structural ? h("div.warning", null, comparison.structural) : null,
    plot(view, "propagation", go), twin(view, "propagation"),
    comparison.notes.map((text) => h("div.warning", null, text)),
    store.figures.figures.gradients ? [plot(view, "gradients"), twin(view, "gradients")] : null,
    h("p.note", null, ["gradients", "parameters", "buffers", "optimizer_state"].map((name) => differing(name, comparison[name])).join(" · "))];
}

/** @param {{ total: number, differing: number }} found */
function differing(name, found) {
  return `${name.replace("_", " ")}: ${count(found.differing)} of ${count(found.total)} differ`;
}

/** Loss of both runs, as far as they are. @param {View} view */
function livePlot(view, records) {
  const line = (name, rows, color) => ({ name, mode: "lines", line: { color },
    x: rows.map((each) => each.step), y: rows.map((each) => number(each.loss)) });
  view.live ??= h("div.plot", { role: "figure", "aria-label": "loss so far" });
  draw(view, view.live, { data: [line("golden", records.golden, "#7a828e"), line("faulty", records.faulty, "#e8590c")],
    layout: { height: 260, title: { text: "loss so far" }, xaxis: { title: { text: "step" } } } });
  return view.live;
}

/** @param {View} view */
function trainingPanel(view) {
  const { run, steps } = view.store;
  const records = steps ?? run?.steps;
  if (!records) return [h("div.empty", null, "no replay yet")];
  const faulty = new Map(records.faulty.map((each) => [each.step, each]));
  const pair = (a, b) => h("span", { "data-changed": b !== undefined && a !== b }, figure(a), " → ", b === undefined ? "–" : figure(b));
  const rows = records.golden.slice(0, 200).map((golden) => [String(golden.step),
    ...["loss", "gradient_norm", "parameter_norm"].map((name) => pair(golden[name], faulty.get(golden.step)?.[name]))]);
  return [steps ? livePlot(view, steps) : [plot(view, "training"), twin(view, "training")], table(["step", "loss", "gradient norm", "parameter norm"], rows, "golden → faulty, by step")];
}

/** @param {View} view */
function logPanel(view) {
  const { log } = view.store;
  if (!log.length) return [h("div.empty", null, "nothing yet")];
  return log.map(({ level, text, more, time }) => h("div.entry", { "data-level": level }, h("span.num.time", null, time.toLocaleTimeString()),
    more ? h("details", null, h("summary", null, text), h("pre", null, more)) : h("span", null, text)));
}

// ---- 14. Footer ----

/** @type {MakePane} */
function footPane(view) {
  const { store } = view;
  const state = h("span.state", { role: "status" });
  const bar = h("progress.progress", { max: 1, "aria-label": "progress" });
  const steps = h("input.input", { type: "number", min: 1, max: 100000, value: "1", "aria-label": "steps" });
  const ask = (kind, fields) => () => store.tell(kind, fields);
  const replay = button("Replay", () => store.tell("replay", { steps: Math.max(1, Number(steps.value) || 1) }), {}, "primary");
  const stop = button("Stop", ask("stop"));
  const reset = button("Reset", ask("disarm"));
  const code = button("Copy as code", async () => {
    await copy(store.plan.code ?? "", view.root);
    view.say("copied");
    store.note("info", "copied", store.plan.code);
  });
  const save = button("Save injector.json", async () => {
    const saved = await store.tell("save", { path: "injector.json" });
    if (saved) view.say(`saved ${saved.path}`);
  });
  const report = button("Save report", async () => {
    const saved = await store.tell("export", { path: "fi-report.html" });
    if (saved) view.say(`saved ${saved.path}`);
  });
  const live = h("span.steps", null, "steps ", steps);
  const el = h("div.foot", null, state, bar, h("span.fill"), replay, live, stop, reset, code, save, report);
  return {
    el,
    update() {
      const { text, kind, share } = stateText(store);
      if (state.textContent !== text) state.textContent = text;
      state.dataset.state = kind;
      bar.hidden = share === null;
      bar.value = share ?? 0;
      const dead = store.readonly || Boolean(store.lost);
      const busy = kind === "busy";
      replay.disabled = dead || busy || !store.trace;
      stop.disabled = dead || !busy;
      for (const each of [reset, save]) each.disabled = dead || !store.plan.faults.length;
      report.disabled = dead;
      for (const each of [replay, live, stop, reset, code, save, report]) each.hidden = store.readonly;
    },
  };
}

/** The state in words. @param {Store} store @returns {{ text: string, kind: string, share: number | null }} */
function stateText(store) {
  const { state, note = "", progress } = store.state;
  if (store.readonly) return { text: "read-only report", kind: "idle", share: null };
  if (store.lost) return { text: `read-only: ${store.lost}`, kind: "error", share: null };
  if (progress && state !== "idle") {
    const share = (progress.done ?? 0) / Math.max(1, progress.total ?? 1);
    return { text: `${state} ${progress.text ?? ""}`, kind: "busy", share };
  }
  if (state !== "idle") return { text: note ? `${state}: ${note}` : state, kind: "busy", share: null };
  return { text: note || (store.trace ? "ready" : "idle"), kind: note ? "warn" : "idle", share: null };
}

// ---- 15. Entry points ----

/** Draw an explorer into an element. @param {Store} store @param {HTMLElement} el */
function mount(store, el) {
  const live = h("div.live", { "aria-live": "polite" });
  const root = h("div.explorer", { "data-lm-suppress-shortcuts": "true" });
  const view = { store, root, say: (text) => { live.textContent = text; } };
  const names = ["tree", "site", "result"];
  const switcher = h("div.switch", { role: "group", "aria-label": "pane" });
  const panes = [headPane(view), treePane(view), sitePane(view), resultPane(view), footPane(view)];
  const [head, tree, site, result, foot] = panes;
  root.append(head.el, switcher, h("div.panes", null, tree.el, site.el, result.el), foot.el, live);
  const paneShown = () => {
    root.dataset.pane = store.ui.pane;
    switcher.replaceChildren(...names.map((name) => button(name, () => showPane(store, name), { "aria-pressed": store.ui.pane === name }, "tab")));
  };
  const draw_ = scheduler(store, (topics) => {
    for (const pane of panes) pane.update(topics);
    if (topics.includes("pane")) paneShown();
    if (store.refocus) /** @type {any} */ (root.querySelector(store.refocus))?.focus();
    store.refocus = null;
  });
  const unsubscribe = store.subscribe(draw_);
  root.addEventListener("keydown", (event) => rootKey(root, event));
  el.append(root);
  const unwatch = watchTheme(view);
  const sized = new ResizeObserver(() => redraw(view));
  sized.observe(result.el);
  draw_(["hello", "trace", "tree", "plan", "run", "figures", "state", "site", "log", "pane", "tab"]);
  return () => {
    unsubscribe();
    unwatch();
    sized.disconnect();
    root.remove();
  };
}

/** Gathers topics and draws once per frame. @param {Store} store @param {(topics: string[]) => void} work */
function scheduler(store, work) {
  const due = new Set();
  return (topics) => {
    if (!due.size) {
      requestAnimationFrame(() => {
        const now = [...due];
        due.clear();
        try {
          work(now);
        } catch (error) {
          console.error(error);
          store.log.unshift({ level: "error", text: String(error), more: error.stack ?? "", time: new Date() });
        }
      });
    }
    for (const topic of topics) due.add(topic);
  };
}

/** Keys stay inside the widget; Escape leaves it to the notebook cell. */
function rootKey(root, event) {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "Escape") {
    const cell = root.closest(".jp-Cell, [tabindex]");
    event.target.blur();
    return cell?.focus?.();
  }
  event.stopPropagation();
  if (event.key === "/" && !typing) {
    event.preventDefault();
    root.querySelector(".fi-search")?.focus();
  }
  if (event.key === "ArrowDown" && event.target.classList?.contains("fi-search")) root.querySelector(".fi-grid")?.focus();
}

/** Light or dark, as the page is; figures are drawn again when it switches. @param {View} view */
function watchTheme(view) {
  const look = () => {
    const [r, g, b] = (getComputedStyle(view.root).backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
    const theme = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
    if (view.root.dataset.theme === theme) return;
    const first = !view.root.dataset.theme;
    view.root.dataset.theme = theme;
    if (!first) redraw(view);
  };
  const later = () => requestAnimationFrame(look);
  const observer = new MutationObserver(later);
  for (const each of [document.documentElement, document.body]) observer.observe(each, { attributes: true });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", later);
  look();
  return () => {
    observer.disconnect();
    media.removeEventListener("change", later);
  };
}

/** One store per widget, whatever the number of its views. @type {Map<string, Store>} */
const STORES = new Map();

function storeOf(model) {
  const key = model.get("_key");
  const known = STORES.get(key);
  if (known) return known;
  // a comm of its own, heard while a cell runs
  const control = Promise.resolve().then(() => model.widget_manager.get_model(model.get("_control")))
    .catch(() => model);
  const store = new Store((content) => control.then((by) => by.send(content)));
  const wire = new Wire((message) => store.receive(message), () => store.tell("resync"));
  model.on("msg:custom", (content, buffers) => wire.receive(content, buffers));
  model.on("comm_live_update", () => store.lose("the kernel is gone"));
  STORES.set(key, store);
  for (const wait of [0, 300, 1000, 4000]) setTimeout(() => store.tell("ping"), wait);
  store.tell("ready", { plotly: Boolean(PAGE.__fi_plotly) });
  return store;
}

export default {
  /** @param {{ model: any }} context */
  initialize({ model }) {
    storeOf(model);
    return () => STORES.delete(model.get("_key"));
  },
  /** @param {{ model: any, el: HTMLElement }} context */
  render({ model, el }) {
    return mount(storeOf(model), el);
  },
};

/** Open an exported report: the same messages, from the file instead of a kernel.
 * @param {HTMLElement} el @param {{ head: number, block: string, deflated: boolean }[]} messages */
export async function openReport(el, messages) {
  const store = new Store(() => {}, true);
  for (const { head, block, deflated } of messages) {
    const bytes = Uint8Array.from(atob(block), (c) => c.charCodeAt(0));
    store.receive(unpack(head, deflated ? await inflate(bytes) : bytes));
  }
  mount(store, el);
  const struck = store.run?.injections[0]?.row ?? -1;
  if (struck >= 0) store.reveal(struck);
}
