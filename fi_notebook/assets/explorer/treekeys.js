/** The keyboard of the tree: the ARIA treegrid pattern. */

import { chooseNode, showPane, toggle } from "./choosing.js";
import { KIND, isBranch } from "./layout.js";
import { nodeText } from "./nodes.js";
import { scrollTo } from "./rows.js";

/** @import { View } from "./dom.js" */
/** @import { Tree } from "./layout.js" */
/** @import { Store } from "./store.js" */

/** Where each key goes. @type {Record<string, (at: number, size: number) => number>} */
const MOVES = {
  ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (_, size) => size - 1,
  PageDown: (at) => at + 15, PageUp: (at) => at - 15,
};

/** @param {View} view @param {KeyboardEvent} event */
export function treeKey(view, pane, event) {
  const { store } = view;
  const shown = store.visible();
  if (!shown || !shown.nodes.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = shown.nodes.indexOf(store.ui.node);
  const go = (to) => {
    const bound = Math.max(0, Math.min(shown.nodes.length - 1, to));
    chooseNode(view, pane, shown.nodes[bound]);
    scrollTo(view, pane);
  };
  if (treeAction(view, event, at, go)) event.preventDefault();
}

/** @param {View} view @param {KeyboardEvent} event @param {(to: number) => void} go */
function treeAction(view, event, at, go) {
  const { store } = view;
  const { tree, nodes } = store.visible();
  const node = nodes[at];
  const branch = at >= 0 && isBranch(tree, node);
  const open = branch && store.opened()[node] === 1;
  if (event.key in MOVES) go(at < 0 && event.key !== "End" ? 0 : MOVES[event.key](at, nodes.length));
  else if (at < 0) return false;
  else if (event.key === "ArrowRight") !branch || open ? branch && go(at + 1) : toggle(view, node);
  else if (event.key === "ArrowLeft") branch && open ? toggle(view, node) : tree.parent[node] >= 0 && go(nodes.indexOf(tree.parent[node]));
  else if (event.key === "*") openSiblings(store, tree, node);
  else if (event.key === "Enter") enter(view, tree, node);
  else if (event.key === " ") armNode(view, tree, node);
  else if (event.key.length === 1 && event.key !== "/") typeAhead(view, event.key, at, go);
  else return false;
  return true;
}

/** @param {Store} store @param {Tree} tree */
function openSiblings(store, tree, node) {
  const open = store.opened();
  for (let at = 0; at < tree.size; at += 1) if (tree.parent[at] === tree.parent[node]) open[at] = 1;
  store.changed("tree");
}

/** @param {View} view @param {Tree} tree */
function enter(view, tree, node) {
  if (tree.kind[node] !== KIND.site && tree.kind[node] !== KIND.call) return toggle(view, node);
  showPane(view.store, "site");
  view.root.querySelector(".fi-site")?.focus();
}

/** @param {View} view @param {Tree} tree */
function armNode({ store, say }, tree, node) {
  if (store.readonly || tree.kind[node] !== KIND.site) return;
  store.toggleArmed(tree.ref[node]).then(say, (error) => {
    store.fail(error.message);
    say(error.message);
  });
}

/** @param {View} view @param {(to: number) => void} go */
function typeAhead(view, key, at, go) {
  const { store } = view;
  const { tree, nodes } = store.visible();
  const now = Date.now();
  const typed = now - (store.ui.typedAt ?? 0) < 700 ? store.ui.typed + key : key;
  store.ui.typed = typed.toLowerCase();
  store.ui.typedAt = now;
  const start = typed.length === 1 ? 1 : 0;
  for (let step = start; step < Math.min(nodes.length, 20_000) + start; step += 1) {
    const to = (at + step) % nodes.length;
    if (nodeText(store, tree, nodes[to]).name.toLowerCase().startsWith(store.ui.typed)) return go(to);
  }
}
