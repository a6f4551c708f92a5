/** What a node of the tree is called, and what stands beside its name. */

import { KIND } from "./layout.js";
import { lineLabel, siteText, sourceLine } from "./names.js";
import { count, dtypeText, plural, shapeText } from "./numbers.js";

/** @import { Tree } from "./layout.js" */
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
    case KIND.fold: return { name: data.modules[ref][0].replace(/\d+$/, "*"), detail: `${data.modules[ref][1]} × ${tree.children[node]}` };
    case KIND.phase: return { name: data.phases[ref], detail: "" };
    case KIND.call: return { name: siteText(store.trace, ref).replace(/:.*$/, ""), detail: plural(tree.leaves[node], "output") };
    default: return { name: siteText(store.trace, ref), detail: siteDetail(store, ref) };
  }
}

/** A module's path below the module above it, and its class.
 * @param {Store} store @param {Tree} tree */
function moduleText(store, tree, node) {
  const { modules, info } = store.trace.data;
  const [path, kind, aliases] = modules[tree.ref[node]];
  if (path === "") return { name: kind || "model", detail: info?.ran_eagerly ? "ran eagerly" : "" };
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

/** @param {Store} store */
export function typeText(store, row) {
  return `${dtypeText(store.dtypeOf(row))} ${shapeText(store.shapeOf(row))}`;
}
