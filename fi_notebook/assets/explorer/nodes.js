/** What a node of the tree is called, and what stands beside its name. */

import { KIND } from "./layout.js";
import { lineLabel, siteText, sourceLine } from "./names.js";
import { count, dtypeText, plural, shapeText } from "./numbers.js";

/** @import { Tree } from "./layout.js" */
/** @import { Trace } from "./names.js" */
/** @import { Store } from "./store.js" */

export const STATISTICS = ["min", "max", "mean", "std", "norm", "nan", "posinf", "neginf", "zeros"];

/** Name and detail of a node. @param {Store} store @param {Tree} tree */
export function nodeText(store, tree, node) {
  const { data } = store.trace;
  const ref = tree.ref[node];
  switch (tree.kind[node]) {
    case KIND.module: return moduleText(store, tree, node);
    case KIND.file: return { name: ref < 0 ? "(no source line)" : String(data.frames[ref][0]).split(/[\\/]/).pop(), detail: "" };
    case KIND.line: return { name: String(data.frames[ref][1]), detail: sourceLine(data, data.frames[ref]).trim() };
    case KIND.op: return { name: data.ops[ref], detail: `× ${count(tree.children[node])}` };
    case KIND.fold: return { name: belowName(store, tree, node).replace(/\d+$/, "*"), detail: `${data.modules[ref][1]} × ${tree.children[node]}` };
    case KIND.phase: return { name: data.phases[ref], detail: "" };
    case KIND.call: return { name: siteText(store.trace, ref).replace(/:.*$/, ""), detail: plural(tree.leaves[node], "output") };
    default: return { name: siteText(store.trace, ref), detail: siteDetail(store, tree, node) };
  }
}

/** Name and detail of a node, with the whole path where it is shortened.
 * @param {Store} store @param {Tree} tree */
export function hoverText(store, tree, node) {
  const { name, detail } = nodeText(store, tree, node);
  const { trace } = store;
  if (tree.kind[node] === KIND.module) return `${trace.data.modules[tree.ref[node]][0] || name} ${detail}`;
  if (tree.kind[node] !== KIND.site) return `${name} ${detail}`;
  const path = pathOf(trace, tree.ref[node]);
  return [name, path, path.endsWith(detail.replace("…", "")) ? "" : detail].filter(Boolean).join(" ");
}

/** A module's path below the module above it, and its class.
 * @param {Store} store @param {Tree} tree */
function moduleText(store, tree, node) {
  const { modules, info } = store.trace.data;
  const [path, kind, aliases] = modules[tree.ref[node]];
  if (path === "") return { name: kind || "model", detail: info?.ran_eagerly ? "ran eagerly" : "" };
  const also = aliases.length ? ` also ${aliases.join(", ")}` : "";
  return { name: belowName(store, tree, node), detail: kind + also };
}

/** The path of a module, or of the first of a fold, below the nearest module above it.
 * @param {Store} store @param {Tree} tree */
function belowName(store, tree, node) {
  const path = store.trace.data.modules[tree.ref[node]][0];
  const above = moduleAbove(store, tree, node);
  return above && path.startsWith(`${above}.`) ? path.slice(above.length + 1) : path;
}

/** The path of the nearest module above a node. @param {Store} store @param {Tree} tree */
function moduleAbove(store, tree, node) {
  let at = tree.parent[node];
  while (at >= 0 && tree.kind[at] !== KIND.module) at = tree.parent[at];
  return at < 0 ? "" : store.trace.data.modules[tree.ref[at]][0];
}

/** Where a site is, below the module above it or what its siblings have in common.
 * @param {Store} store @param {Tree} tree */
function siteDetail(store, tree, node) {
  const { data, columns } = store.trace;
  const row = tree.ref[node];
  const inModules = store.ui.view === "modules";
  if (inModules && columns.parameter[row] < 0) return lineLabel(data, columns.stack[row]);
  const path = pathOf(store.trace, row);
  const above = inModules ? moduleAbove(store, tree, node) : commonStem(store, tree, tree.parent[node]);
  if (!above || !path.startsWith(`${above}.`)) return path;
  return (inModules ? "" : "…") + path.slice(above.length + 1);
}

/** The stored tensor or the module that a site belongs to. @param {Trace} trace @param {number} row */
function pathOf({ data, columns }, row) {
  const parameter = columns.parameter[row];
  if (parameter >= 0) return data.parameters[parameter] === "*" ? "all parameters" : data.parameters[parameter];
  const [path, kind] = data.modules[columns.module[row]];
  return path || kind;
}

/** What the paths below a node begin with, found once. @type {WeakMap<Tree, Map<number, string>>} */
const STEMS = new WeakMap();

/** @param {Store} store @param {Tree} tree */
function commonStem(store, tree, node) {
  if (node < 0) return "";
  const known = STEMS.get(tree) ?? new Map();
  STEMS.set(tree, known);
  if (!known.has(node)) {
    const paths = new Set();
    for (let at = node + 1; at < tree.end[node]; at += 1) if (tree.kind[at] === KIND.site) paths.add(pathOf(store.trace, tree.ref[at]));
    known.set(node, stemOf([...paths]));
  }
  return known.get(node);
}

/** The modules that all of some paths begin with; "" of fewer than two paths.
 * @param {string[]} paths */
export function stemOf(paths) {
  if (paths.length < 2) return "";
  const [first, ...others] = paths.map((path) => path.split(".").slice(0, -1));
  const differs = first.findIndex((part, at) => others.some((each) => each[at] !== part));
  return first.slice(0, differs < 0 ? first.length : differs).join(".");
}

/** @param {Store} store */
export function typeText(store, row) {
  return `${dtypeText(store.dtypeOf(row))} ${shapeText(store.shapeOf(row))}`;
}
