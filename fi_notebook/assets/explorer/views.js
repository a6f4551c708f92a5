/** The four views of a trace: modules, source lines, operators, timeline. */

import { KIND, TreeBuilder } from "./layout.js";

/** @import { Tree } from "./layout.js" */
/** @import { Trace } from "./names.js" */

export const VIEWS = ["modules", "source", "operators", "timeline"];

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
