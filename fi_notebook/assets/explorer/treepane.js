/** The tree pane: virtual rows below a head of columns. */

import { fill, freshId, h, select } from "./dom.js";
import { paintRows, scrollTo } from "./rows.js";
import { HEATS, heatText } from "./shown.js";
import { treeKey } from "./treekeys.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @type {MakePane} */
export function treePane(view) {
  const { store } = view;
  const spacer = h("div.spacer");
  const ids = freshId();
  const rows = h("div.rows", { id: `${ids}-rows`, role: "rowgroup" });
  const grid = h("div.grid", {
    role: "treegrid", tabindex: 0, "aria-label": "calls of the step", "aria-owns": `${ids}-heads ${ids}-rows`,
  }, spacer, rows);
  const heat = select(store.ui.heat, HEATS.map((name) => [name, heatText(name)]), (value) => {
    store.ui.heat = value;
    store.changed("tree");
  }, { "aria-label": "heat column", title: "what the bars show, on a logarithmic scale" });
  const depth = h("span.depth");
  const head = (props, ...children) => h("span", { role: "columnheader", ...props }, ...children);
  const heads = h("div.heads", { role: "row", id: `${ids}-heads` }, head(null, "site", depth), head(null, "phase"),
    head(null, "output"), head({ title: "NaN, infinities, zeros" }, "health"), head({ "aria-label": "heat" }, heat));
  const empty = h("div.empty", { role: "status" });
  const el = h("section.pane.tree", { "aria-label": "tree", "data-name": "tree" }, heads, grid, empty);
  const pane = { grid, room: 400, rows, spacer, empty, heat, ids };
  grid.addEventListener("scroll", () => paintRows(view, pane), { passive: true });
  grid.addEventListener("keydown", (event) => treeKey(view, pane, event));
  new ResizeObserver(() => {
    pane.room = grid.clientHeight; // here: painting reads no layout
    heads.style.paddingRight = `${grid.offsetWidth - grid.clientWidth + 8}px`;
    paintRows(view, pane);
  }).observe(grid);
  return {
    el,
    update(topics) {
      if (topics.some((t) => ["trace", "tree", "plan", "run", "site", "reveal", "hello"].includes(t))
        || (topics.includes("state") && !store.trace)) paintRows(view, pane);
      if (topics.includes("reveal")) scrollTo(view, pane);
      if (topics.some((t) => ["trace", "tree"].includes(t))) fill(depth, depthSelect(store));
      heat.value = store.ui.heat;
      heat.options[HEATS.indexOf("error")].disabled = !store.errors;
    },
  };
}

/** Opens the tree down to a depth. @param {Store} store */
function depthSelect(store) {
  if (!store.trace) return [];
  const deepest = store.tree().depth.reduce((a, b) => Math.max(a, b), 0);
  const depths = Array.from({ length: deepest }, (_, depth) => [String(depth), depth ? `depth ${depth}` : "fold all"]);
  return [select("", [["", "depth"], ...depths, [String(deepest), "open all"]],
    (value) => value && store.openTo(Number(value)), { "aria-label": "open the tree to depth" })];
}
