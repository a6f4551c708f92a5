/** Result, last tab: what was said. */

import { h } from "./dom.js";

/** @import { View } from "./dom.js" */

/** @param {View} view */
export function logPanel(view) {
  const { log } = view.store;
  if (!log.length) return [h("div.empty", null, "nothing yet")];
  return log.map(({ level, text, more, time }) => h("div.entry", { "data-level": level }, h("span.num.time", null, time.toLocaleTimeString()),
    more ? h("details", null, h("summary", null, text), h("pre", null, more)) : h("span", null, text)));
}
