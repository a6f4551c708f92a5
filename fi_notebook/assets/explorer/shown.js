/** What the tree pane shows: the nodes that search, phases and folding leave, and their heat. */

import { KIND, flatten, highest, tally } from "./layout.js";
import { hintOf } from "./hints.js";
import { isWhole } from "./numbers.js";
import { parseQuery, search } from "./search.js";

/** @import { Tree } from "./layout.js" */
/** @import { Store } from "./store.js" */

/** The heat column: every statistic, and after a replay how far the runs differ. */
export const HEATS = ["std", "norm", "max", "min", "mean", "zeros", "nan", "posinf", "neginf", "error"];
const HEAT_TEXTS = { nan: "NaN", posinf: "+Inf", neginf: "−Inf", error: "relative L2" };

/** What a person reads for a heat. @param {string} name */
export const heatText = (name) => HEAT_TEXTS[name] ?? name;

const SIZED = ["std", "norm", "max", "min", "mean"]; // statistics that are of the size of the values
const NARROW = 1e-3; // the scale goes down to this share of the largest at least: near values have near bars

/** The nodes that are open at first: the roots of modules and the files.
 * @param {Tree} tree */
export function openAtFirst(tree) {
  return tree.kind.map((kind, node) =>
    ((kind === KIND.module && tree.depth[node] < 1) || kind === KIND.file ? 1 : 0));
}

/** Everything that the tree pane draws; the store keeps it until something changes.
 * @param {Store} store */
export function shownOf(store) {
  const tree = store.tree();
  const { mask, problem, terms } = masked(store);
  const found = tally(tree, mask);
  const { nan, posinf, neginf } = store.trace.columns;
  const bad = nan.map((n, row) => n + posinf[row] + neginf[row]);
  const { errors } = store;
  const total = mask.reduce((sum, hit) => sum + hit, 0);
  return {
    tree, found, mask, problem, total,
    hint: total || problem ? "" : hintOf(store.trace, terms, store.facts()),
    nodes: flatten(tree, store.opened(), found),
    bad: highest(tree, bad, mask),
    broken: errors && highest(tree, errors.bad, mask),
    changed: errors && highest(tree, errors.changed, mask),
    heat: heatOf(store, tree, mask),
  };
}

/** The sites that search, phases and folding leave. @param {Store} store */
function masked(store) {
  const { trace, ui } = store;
  const terms = parseQuery(ui.query, [...trace.data.flags, ...store.facts().effects]);
  const { phase, flags } = trace.columns;
  let mask = new Uint8Array(trace.size).fill(1);
  let problem = "";
  try {
    if (terms.length) mask = search(trace, terms, store.facts());
  } catch (error) {
    problem = error.message; // the tree stays as it is without a search
  }
  const fold = ui.folded || (terms.length && !problem) ? 0 : 1 << trace.data.flags.indexOf("folded");
  for (let row = 0; row < trace.size; row += 1) {
    if (flags[row] & fold || ui.hidden.has(phase[row])) mask[row] = 0;
  }
  return { mask, problem, terms };
}

/** Size of the heat at each node, of the sites that are shown, and the ends of the scale of all.
 * @param {Store} store @param {Tree} tree @param {Uint8Array} mask */
function heatOf(store, tree, mask) {
  const name = store.ui.heat;
  const error = name === "error"; // below zero it is none at all
  const values = error ? store.errors?.error : store.trace.columns[name];
  if (!values) return null;
  const bad = error ? store.errors.bad : null; // to NaN and Inf there is no distance: they are beyond all
  const sizes = Float64Array.from(values, (x, row) => (bad?.[row] > 0 ? Infinity
    : Number.isNaN(x) || (x < 0 && error) ? -1 : Math.abs(x)));
  let low = Infinity;
  let high = 0;
  sizes.forEach((x, row) => { // indices are of another size than values: they would flatten all others
    if (SIZED.includes(name) && isWhole(store.dtypeOf(row))) return;
    if (x > 0 && x < low) low = x;
    if (x > high && x < Infinity) high = x;
  });
  const least = high * (error ? 1e-12 : 1e-5);
  return { most: highest(tree, sizes, mask), low: Math.min(Math.max(low, least), high * NARROW), high };
}
