/** Choosing and opening nodes of the tree; nothing runs. */

import { KIND, firstRow, isBranch } from "./layout.js";
import { nodeText } from "./nodes.js";
import { clip } from "./numbers.js";

/** @import { View } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @param {View} view */
export function toggle(view, node) {
  const open = view.store.opened();
  if (!isBranch(view.store.tree(), node)) return;
  open[node] = open[node] ? 0 : 1;
  view.store.changed("tree");
}

/** @param {View} view */
export function chooseNode(view, pane, node) {
  const { store } = view;
  const tree = store.tree();
  const kind = tree.kind[node];
  store.ui.node = node;
  if (kind === KIND.site || kind === KIND.call) store.select(firstRow(tree, node));
  const { name, detail } = nodeText(store, tree, node);
  view.say(`${clip(name)} ${clip(detail)}`);
  store.changed("tree");
  pane.grid.focus({ preventScroll: true });
}

/** Where not all panes have room, show this one. @param {Store} store */
export function showPane(store, name) {
  store.ui.pane = name;
  store.changed("pane");
}
