/** Health of a site as chips: NaN, infinities, zeros; after a replay what is newly not finite. */

import { h } from "./dom.js";
import { KIND, firstRow } from "./layout.js";
import { count, plural } from "./numbers.js";

/** @import { Trace } from "./names.js" */
/** @import { Store } from "./store.js" */

/** @typedef {{ text: string, bad: boolean, title: string }} Chip */

const MOSTLY = 0.5; // share of zeros that is worth a chip

/** What is remarkable about the values of one site. @param {Trace} trace @param {number} row
 * @returns {Chip[]} */
export function healthOf(trace, row) {
  const { nan, posinf, neginf, zeros, shape } = trace.columns;
  const numel = trace.data.shapes[shape[row]].reduce((a, b) => a * b, 1);
  const chips = [];
  const add = (text, bad, title) => chips.push({ text, bad, title });
  if (nan[row] > 0) add(`NaN ${count(nan[row])}`, true, `${count(nan[row])} of ${count(numel)} elements are NaN`);
  const infinite = Math.max(0, posinf[row]) + Math.max(0, neginf[row]);
  if (infinite) {
    const sign = neginf[row] > 0 ? (posinf[row] > 0 ? "±" : "−") : "+";
    add(`${sign}Inf ${count(infinite)}`, true, `${plural(posinf[row], "element")} ${posinf[row] === 1 ? "is" : "are"} +Inf, ${count(neginf[row])} −Inf`);
  }
  if (!chips.length && numel > 1 && zeros[row] >= MOSTLY * numel) {
    const all = zeros[row] === numel;
    add(all ? "all zero" : `${Math.floor((100 * zeros[row]) / numel)} % zero`, false, `${count(zeros[row])} of ${count(numel)} elements are zero`);
  }
  return chips;
}

/** The chips of a node: a branch tells only whether anything below it is not finite.
 * @param {Store} store */
export function healthCell(store, shown, node) {
  const { tree, bad, broken } = shown;
  const leaf = tree.kind[node] === KIND.site;
  const row = firstRow(tree, node);
  let chips = leaf ? healthOf(store.trace, row)
    : bad[node] > 0 ? [{ text: "NaN/Inf", bad: true, title: "an output below is not finite" }] : [];
  if (broken?.[node] > 0) {
    const many = leaf ? `${plural(store.errors.bad[row], "element")}: ` : "";
    chips = chips.filter((each) => each.bad); // there is no room for less
    chips.unshift({ text: "+ NaN/Inf", bad: true, title: `${many}not finite in the faulty run, unlike the golden one` });
  }
  return chips.map(({ text, bad: worse, title }) => h(worse ? "span.chip.bad" : "span.chip", { title }, text));
}
