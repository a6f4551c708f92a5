/** The scrubber below the propagation: goes through the sites that differ and those that mask the
 * error, in execution order, and takes the tree's selection with it. */

import { button, h } from "./dom.js";
import { siteText } from "./names.js";
import { count, short } from "./numbers.js";

/** @import { View } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @typedef {{ at: Int32Array, rows: Int32Array, masks: number }} Stops compared rows, their sites,
 * and how many of them do not differ but mask the error of their inputs */

/** Where the scrubber stops: every compared site that differs or masks and that the golden run has.
 * @param {{ golden: Int32Array, effect: Uint8Array }} errors @param {string[]} effects @returns {Stops} */
export function stopsOf({ golden, effect }, effects) {
  const equal = effects.indexOf("equal");
  const at = Int32Array.from(golden.keys()).filter((n) => golden[n] >= 0 && effect[golden[n]] !== equal);
  const rows = at.map((n) => golden[n]);
  return { at, rows, masks: rows.filter((row) => effect[row] === effects.indexOf("masked")).length };
}

/** How many stops there are of each kind: `128 that differ, 3 that mask the error`. @param {Stops} stops */
export function stopsText({ rows, masks }) {
  const differ = `${count(rows.length - masks)} that differ${rows.length - masks === 1 ? "s" : ""}`;
  return masks ? `${differ}, ${count(masks)} that mask${masks === 1 ? "s" : ""} the error` : differ;
}

/** What happened at a stop, in words. @param {Store} store @param {number} row */
export function stopText(store, row) {
  const { effect, error, bad } = store.errors;
  const size = bad[row] > 0 ? `${count(bad[row])} NaN or Inf` : `relative L2 ${short(error[row])}`;
  return `${siteText(store.trace, row)} · ${store.run.effects[effect[row]] ?? "not compared"} · ${size}`;
}

/** The scrubber of the last run. @param {View} view @param {(at: number) => void} mark told where it stands */
export function scrubber(view, mark) {
  const { store } = view;
  const stops = stopsOf(store.errors, store.run.effects);
  if (!stops.at.length) return null;
  const last = stops.at.length - 1;
  const text = h("output.scrubtext");
  const range = h("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "sites that differ or mask",
    oninput: () => go(Number(range.value)) });
  const show = (n) => {
    range.value = String(n);
    const words = `${count(n + 1)} of ${count(last + 1)} (${stopsText(stops)}): ${stopText(store, stops.rows[n])}`;
    text.textContent = words;
    range.setAttribute("aria-valuetext", words);
    mark(stops.at[n]);
  };
  const go = (n) => {
    const to = Math.max(0, Math.min(last, n));
    show(to);
    store.reveal(stops.rows[to]);
  };
  const follow = () => {
    const n = stops.rows.indexOf(store.ui.row);
    if (n >= 0 && n !== Number(range.value)) show(n);
  };
  const here = stops.rows.indexOf(store.ui.row);
  show(Math.max(0, here));
  const el = h("div.scrub", { role: "group", "aria-label": "go through the sites that differ or mask" },
    button("‹", () => go(Number(range.value) - 1), { "aria-label": "previous site that differs or masks" }, "small"), range,
    button("›", () => go(Number(range.value) + 1), { "aria-label": "next site that differs or masks" }, "small"), text);
  return { el, follow };
}
