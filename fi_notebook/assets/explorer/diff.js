/** Result, first tab: what a fault did to the struck tensor. */

import { button, h, select, table } from "./dom.js";
import { elementTable } from "./elements.js";
import { STATISTICS } from "./nodes.js";
import { clip, count, plural } from "./numbers.js";
import { plot, twin } from "./plots.js";
import { statisticPair } from "./statistics.js";

/** @import { View } from "./dom.js" */

/** @param {View} view */
export function diffPanel(view) {
  const { store } = view;
  const injections = store.run?.injections ?? [];
  if (!injections.length) return [h("div.empty", null, store.run ? "no fault struck" : "no result yet")];
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

/** Statistics before and after; where no element is finite there are none of most.
 * @param {{ before: any, after: any, dtype: string }} injection */
function beforeAfter({ before, after, dtype }) {
  const heads = { nan: "NaN", posinf: "+Inf", neginf: "−Inf" };
  const pairs = STATISTICS.map((name) => statisticPair(name, before[name], after[name], dtype));
  return h("div.scroll", { tabindex: 0, role: "group", "aria-label": "statistics" }, table(["run", ...STATISTICS.map((name) => heads[name] ?? name)], [
    ["before", ...pairs.map(([first]) => first)],
    ["after", ...STATISTICS.map((name, at) => h("span", { "data-changed": before[name] !== after[name] }, pairs[at][1]))],
  ], "statistics before and after"));
}
