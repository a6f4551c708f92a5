/** One view: the panes in one element, drawn once per frame. */

import { showPane } from "./choosing.js";
import { button, fill, h } from "./dom.js";
import { footPane } from "./foot.js";
import { headPane } from "./head.js";
import { focusKeeper, hearKeys } from "./keyboard.js";
import { redraw } from "./plots.js";
import { resultPane } from "./result.js";
import { sitePane } from "./sitepane.js";
import { watchCells } from "./stale.js";
import { watchTheme } from "./theme.js";
import { treePane } from "./treepane.js";

/** @import { Store } from "./store.js" */

/** Draw an explorer into an element. @param {Store} store @param {HTMLElement} el */
export function mount(store, el) {
  const live = h("div.live", { role: "status" });
  const root = h("div.explorer", { "data-lm-suppress-shortcuts": "true", tabindex: -1 });
  const view = { store, root, say: (text) => { live.textContent = text; } };
  const names = ["tree", "site", "result"];
  const switcher = h("div.switch", { role: "group", "aria-label": "pane" });
  const panes = [headPane(view), treePane(view), sitePane(view), resultPane(view), footPane(view)];
  const [head, tree, site, result, foot] = panes;
  root.append(head.el, switcher, h("div.panes", null, tree.el, site.el, result.el), foot.el, live);
  const paneShown = () => {
    root.dataset.pane = store.ui.pane;
    fill(switcher, names.map((name) => button(name, () => showPane(store, name), {}, "tab")));
    const [first, second, third] = switcher.children;
    const beside = getComputedStyle(first).display === "none"; // the tree stands beside another
    const chosen = { tree: beside ? second : first, site: second, result: third }[store.ui.pane];
    for (const each of switcher.children) each.setAttribute("aria-pressed", String(each === chosen));
  };
  const keeping = focusKeeper(root);
  const draw_ = scheduler(store, (topics) => keeping(() => {
    for (const pane of panes) pane.update(topics);
    if (topics.includes("pane")) paneShown();
  }));
  const unsubscribe = store.subscribe(draw_);
  hearKeys(root, () => {
    const box = root.querySelector(".fi-search");
    if (!box.checkVisibility()) {
      showPane(store, "tree");
      paneShown(); // at once: what is hidden takes no focus
    }
    box.focus();
  });
  el.append(root);
  const unwatch = watchTheme(view);
  const unwatchCells = watchCells(view);
  const sized = new ResizeObserver(() => {
    paneShown();
    redraw(view);
  });
  for (const each of [root, result.el]) sized.observe(each);
  draw_(["hello", "trace", "tree", "plan", "run", "figures", "state", "site", "log", "pane", "tab"]);
  return () => {
    unsubscribe();
    unwatch();
    unwatchCells();
    sized.disconnect();
    root.remove();
  };
}

/** Gathers topics and draws once per frame. @param {Store} store @param {(topics: string[]) => void} work */
function scheduler(store, work) {
  const due = new Set();
  return (topics) => {
    if (!due.size) {
      requestAnimationFrame(() => {
        const now = [...due];
        due.clear();
        try {
          work(now);
        } catch (error) {
          console.error(error);
          store.log.unshift({ level: "error", text: String(error), more: error.stack ?? "", time: new Date() });
        }
      });
    }
    for (const topic of topics) due.add(topic);
  };
}
