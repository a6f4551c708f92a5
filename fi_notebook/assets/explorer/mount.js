/** One view: the panes in one element, drawn once per frame. */

import { showPane } from "./choosing.js";
import { button, h } from "./dom.js";
import { footPane } from "./foot.js";
import { headPane } from "./head.js";
import { redraw } from "./plots.js";
import { resultPane } from "./result.js";
import { sitePane } from "./sitepane.js";
import { watchTheme } from "./theme.js";
import { treePane } from "./treepane.js";

/** @import { Store } from "./store.js" */

/** Draw an explorer into an element. @param {Store} store @param {HTMLElement} el */
export function mount(store, el) {
  const live = h("div.live", { "aria-live": "polite" });
  const root = h("div.explorer", { "data-lm-suppress-shortcuts": "true" });
  const view = { store, root, say: (text) => { live.textContent = text; } };
  const names = ["tree", "site", "result"];
  const switcher = h("div.switch", { role: "group", "aria-label": "pane" });
  const panes = [headPane(view), treePane(view), sitePane(view), resultPane(view), footPane(view)];
  const [head, tree, site, result, foot] = panes;
  root.append(head.el, switcher, h("div.panes", null, tree.el, site.el, result.el), foot.el, live);
  const paneShown = () => {
    root.dataset.pane = store.ui.pane;
    switcher.replaceChildren(...names.map((name) => button(name, () => showPane(store, name), { "aria-pressed": store.ui.pane === name }, "tab")));
  };
  const draw_ = scheduler(store, (topics) => {
    for (const pane of panes) pane.update(topics);
    if (topics.includes("pane")) paneShown();
    if (store.refocus) /** @type {any} */ (root.querySelector(store.refocus))?.focus();
    store.refocus = null;
  });
  const unsubscribe = store.subscribe(draw_);
  root.addEventListener("keydown", (event) => rootKey(root, event));
  el.append(root);
  const unwatch = watchTheme(view);
  const sized = new ResizeObserver(() => redraw(view));
  sized.observe(result.el);
  draw_(["hello", "trace", "tree", "plan", "run", "figures", "state", "site", "log", "pane", "tab"]);
  return () => {
    unsubscribe();
    unwatch();
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

/** Keys stay inside the widget; Escape leaves it to the notebook cell. */
function rootKey(root, event) {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "Escape") {
    const cell = root.closest(".jp-Cell, [tabindex]");
    event.target.blur();
    return cell?.focus?.();
  }
  event.stopPropagation();
  if (event.key === "/" && !typing) {
    event.preventDefault();
    root.querySelector(".fi-search")?.focus();
  }
  if (event.key === "ArrowDown" && event.target.classList?.contains("fi-search")) root.querySelector(".fi-grid")?.focus();
}
