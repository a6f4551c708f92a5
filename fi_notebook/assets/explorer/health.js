/** Health of a site as chips: NaN, infinities, zeros; after a replay what is newly not finite. */

import { h } from "./dom.js";
import { KIND, firstRow } from "./layout.js";
import { count, plural } from "./numbers.js";

/** @import { Trace } from "./names.js" */
/** @import { Store } from "./store.js" */

/** @typedef {{ text: string, bad: boolean, title: string }} Chip */

const MOSTLY = 0.5; // share of zeros that is worth a chip

/** A count in at most four characters: `999`, `65k`, `1.2M`. @param {number} n */
export function brief(n) {
  const size = [1e9, 1e6, 1e3].find((each) => n >= each) ?? 1;
  const digits = size > 1 && n < 10 * size ? Math.floor((10 * n) / size) / 10 : Math.floor(n / size);
  return `${digits}${{ 1: "", 1e3: "k", 1e6: "M", 1e9: "G" }[size]}`;
}

/** What is remarkable about the values of one site. @param {Trace} trace @param {number} row
 * @returns {Chip[]} */
export function healthOf(trace, row) {
  const { nan, posinf, neginf, zeros, shape } = trace.columns;
  const numel = trace.data.shapes[shape[row]].reduce((a, b) => a * b, 1);
  const chips = [];
  const add = (text, bad, title) => chips.push({ text, bad, title });
  const many = (n, what) => (n === numel && n > 1 ? `all ${what}` : `${what} ${brief(n)}`);
  if (nan[row] > 0) add(many(nan[row], "NaN"), true, `${count(nan[row])} of ${count(numel)} elements are NaN`);
  const infinite = Math.max(0, posinf[row]) + Math.max(0, neginf[row]);
  if (infinite) {
    const sign = neginf[row] > 0 ? (posinf[row] > 0 ? "±" : "−") : "+";
    add(many(infinite, `${sign}Inf`), true, `${plural(posinf[row], "element")} ${posinf[row] === 1 ? "is" : "are"} +Inf, ${count(neginf[row])} −Inf`);
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
    const before = chips.filter((each) => each.bad).map((each) => `; golden: ${each.title}`).join("");
    chips = [{ text: "+ NaN/Inf", bad: true, title: `${many}not finite in the faulty run, unlike the golden one${before}` }]; // there is no room for more
  }
  return chips.map(({ text, bad: worse, title }) => h(worse ? "span.chip.bad" : "span.chip", { title }, text));
}
