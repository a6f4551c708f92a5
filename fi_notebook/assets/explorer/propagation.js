/** Result, second tab: how the error went on from call to call. */

import { h } from "./dom.js";
import { count } from "./numbers.js";
import { markAt, plot, twin } from "./plots.js";
import { scrubber } from "./scrub.js";

/** @import { View } from "./dom.js" */

/** @param {View} view */
export function propagationPanel(view) {
  const { store } = view;
  if (!store.run) return [h("div.empty", null, "no result yet")];
  const { comparison } = store.run;
  const go = (point) => store.reveal(store.errors.golden[point.customdata]);
  const picture = plot(view, "propagation", go);
  const scrub = scrubber(view, (at) => markAt(view, picture.lastChild, at + 1)); // its axis counts from 1
  view.follow = scrub?.follow;
  return [comparison.structural ? h("div.warning", null, comparison.structural) : null,
    picture, scrub?.el, twin(view, "propagation"),
    comparison.notes.map((text) => h("div.warning", null, text)),
    store.figures.figures.gradients ? [plot(view, "gradients"), twin(view, "gradients")] : null,
    h("p.note", null, ["gradients", "parameters", "buffers", "optimizer_state"].map((name) => differing(name, comparison[name])).join(" · "))];
}

/** @param {{ total: number, differing: number }} found */
function differing(name, found) {
  return `${name.replace("_", " ")}: ${count(found.differing)} of ${count(found.total)} differ`;
}
