/** The tree pane: virtual rows below a head of columns. */

import { h, select } from "./dom.js";
import { paintRows, scrollTo } from "./rows.js";
import { treeKey } from "./treekeys.js";

/** @import { MakePane } from "./dom.js" */

const HEATS = ["std", "norm", "max", "min", "mean", "zeros", "error"];

/** @type {MakePane} */
export function treePane(view) {
  const { store } = view;
  const spacer = h("div.spacer");
  const rows = h("div.rows");
  const grid = h("div.grid", {
    role: "treegrid", tabindex: 0, "aria-label": "calls of the step",
  }, spacer, rows);
  const heat = select(store.ui.heat, HEATS.map((name) => [name, name]), (value) => {
    store.ui.heat = value;
    store.changed("tree");
  }, { "aria-label": "heat column" });
  const heads = h("div.heads", null,
    h("span", null, "site"), h("span", null, "phase"), h("span.right", null, "sites"),
    h("span", null, "type"), heat);
  const empty = h("div.empty");
  const el = h("section.pane.tree", { "aria-label": "tree", "data-name": "tree" }, heads, grid, empty);
  const pane = { grid, room: 400, rows, spacer, empty, heat, ids: `fi${Math.random().toString(36).slice(2)}` };
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
      if (topics.some((t) => ["trace", "tree", "plan", "run", "site", "reveal", "hello"].includes(t))) paintRows(view, pane);
      if (topics.includes("reveal")) scrollTo(view, pane);
      heat.value = store.ui.heat;
    },
  };
}
