/** The rows of the tree that can be seen, painted. */

import { chooseNode, showPane, toggle } from "./choosing.js";
import { h, phaseTag } from "./dom.js";
import { healthCell } from "./health.js";
import { KIND, firstRow, isBranch } from "./layout.js";
import { isMarked, siteText } from "./names.js";
import { hoverText, nodeText, typeText } from "./nodes.js";
import { clip, exact, plural, short } from "./numbers.js";
import { heatText } from "./shown.js";

/** @import { View } from "./dom.js" */
/** @import { Tree } from "./layout.js" */
/** @import { Trace } from "./names.js" */
/** @import { Store } from "./store.js" */

const ROW = 24;
const TALLEST = 30_000_000; // browsers clamp an element near 33.5 million pixels

/** @param {View} view */
export function paintRows(view, pane) {
  const shown = view.store.visible();
  const size = shown ? shown.nodes.length : 0;
  pane.empty.hidden = size > 0;
  pane.grid.hidden = size === 0;
  if (!size) return pane.empty.replaceChildren(emptyText(view.store, shown));
  const full = size * ROW;
  const height = Math.min(full, TALLEST);
  pane.spacer.style.height = `${height}px`;
  const { room } = pane;
  const top = pane.grid.scrollTop;
  const share = full === height ? 1 : (full - room) / Math.max(1, height - room);
  const offset = top * share;
  const first = Math.max(0, Math.floor(offset / ROW) - 2);
  const last = Math.min(size, first + Math.ceil(room / ROW) + 5);
  pane.rows.style.transform = `translateY(${top - (offset - first * ROW)}px)`;
  pane.grid.setAttribute("aria-rowcount", String(size));
  const painted = [];
  for (let at = first; at < last; at += 1) painted.push(rowElement(view, pane, shown, at));
  pane.rows.replaceChildren(...painted);
  const active = painted.find((row) => Number(row.dataset.node) === view.store.ui.node);
  if (active) pane.grid.setAttribute("aria-activedescendant", active.id);
  else pane.grid.removeAttribute("aria-activedescendant");
}

/** @param {Store} store */
function emptyText(store, shown) {
  if (!store.trace) return store.state.state === "tracing" ? "tracing …" : "no trace yet: press Trace to run the step once under observation";
  if (shown.problem) return `cannot read the search: ${shown.problem}`;
  if (!store.trace.size) return "the step made no call";
  return shown.hint || "no site fits the search and the phases";
}

/** @param {View} view */
function rowElement(view, pane, shown, at) {
  const { store } = view;
  const { tree, nodes } = shown;
  const node = nodes[at];
  const branch = isBranch(tree, node);
  const open = branch && store.opened()[node] === 1;
  const row = firstRow(tree, node);
  const leaf = tree.kind[node] === KIND.site;
  const { name, detail } = nodeText(store, tree, node);
  const trace = store.trace;
  const phase = uniform(tree, node, trace) ? trace.data.phases[trace.columns.phase[row]] : "";
  const heat = heatWords(store, shown, node);
  const element = h(`div.row${tree.kind[node] < KIND.op ? ".wide" : ""}`, {
    "data-broken": shown.bad[node] > 0 || shown.broken?.[node] > 0,
    role: "row", id: `${pane.ids}-${node}`, "data-node": node, "aria-rowindex": at + 1,
    "aria-level": tree.depth[node] + 1, "aria-expanded": branch ? String(open) : undefined,
    "aria-label": [name, detail, phase, leaf ? typeText(store, row) : "", heat].filter(Boolean).join(", "),
    "aria-selected": node === store.ui.node, "aria-current": tree.nodeOfRow[store.ui.row] === node ? "true" : undefined,
    onclick: () => {
      chooseNode(view, pane, node);
      if (leaf) showPane(store, "site");
    },
    ondblclick: () => branch && toggle(view, node),
  },
  h("span.name", { role: "gridcell", style: `--fi-depth:${tree.depth[node]}`, title: clip(hoverText(store, tree, node), 400) },
    h("span.twist", { "aria-hidden": "true", onclick: (e) => { e.stopPropagation(); toggle(view, node); } }, branch ? (open ? "▾" : "▸") : ""),
    leaf ? armedBox(view, row) : null,
    tree.kind[node] >= KIND.call && isMarked(trace, row, "collective") ? collectiveMark() : null,
    h(`span.label.k${tree.kind[node]}`, null, labelParts(tree.kind[node], clip(name))),
    h("span.detail", null, clip(detail))),
  h("span", { role: "gridcell" }, phase ? phaseTag(phase) : null),
  h("span.type.num", { role: "gridcell", title: leaf ? typeText(store, row) : undefined }, leaf ? typeText(store, row) : plural(shown.found[node], "site")),
  h("span.health", { role: "gridcell" }, healthCell(store, shown, node)),
  h("span", { role: "gridcell" }, heatCell(store, shown, node)));
  return element;
}

/** A name in two parts, of which the second tells a row from its neighbours: the number and the
 * output of a call, which are never cut, and the last component of a path, which is cut last.
 * @param {number} kind @param {string} name */
function labelParts(kind, name) {
  const call = kind === KIND.call || kind === KIND.site;
  const path = kind === KIND.module || kind === KIND.fold;
  const at = call ? name.lastIndexOf("*") : path ? name.lastIndexOf(".") : -1;
  return [at > 0 ? h("span.stem", null, name.slice(0, at)) : null,
    h(call ? "span.call" : "span.tail", null, name.slice(Math.max(0, at)))];
}

/** Whether a node is in one phase only, as far as its kind tells. @param {Tree} tree @param {Trace} trace */
function uniform(tree, node, trace) {
  if (tree.kind[node] > KIND.op) return tree.kind[node] !== KIND.fold;
  if (tree.kind[node] !== KIND.op) return false;
  return trace.columns.phase[firstRow(tree, node)] === trace.columns.phase[tree.ref[tree.end[node] - 1]];
}

/** Marks a call that moves data between ranks. */
function collectiveMark() {
  return h("span.collective", { title: "collective: moves data between ranks", role: "img", "aria-label": "collective" }, "⇄");
}

const BOXES = { pending: ["false", ""], free: ["false", ""], armed: ["true", "✓"], off: ["mixed", "–"] };

/** Solid only when the kernel has confirmed; a dash where the fault is switched off.
 * @param {View} view */
function armedBox(view, row) {
  const { store } = view;
  const state = store.boxOf(row);
  const faults = (store.armed.get(row) ?? []).map((fault) => (store.off.has(fault) ? `${fault}, switched off` : fault));
  const [checked, mark] = BOXES[state];
  return h("span.box", {
    role: "checkbox", "data-state": state, "aria-checked": checked,
    "aria-label": `arm ${siteText(store.trace, row)}${state === "off" ? "; switched off" : ""}`, title: faults.join("; ") || "arm",
    onclick: (event) => {
      event.stopPropagation();
      if (!store.readonly && !store.lost) store.toggleArmed(row).then(view.say, (error) => store.fail(error.message));
    },
  }, mark);
}

/** What the heat column says of a node, in words. @param {Store} store */
function heatWords(store, shown, node) {
  const { heat } = store.ui;
  if (heat === "error" && shown.changed?.[node] === 0) return "equal bit for bit";
  if (!shown.heat || shown.heat.most[node] < 0) return "";
  const broken = heat === "error" && shown.broken?.[node] > 0;
  return `${heatText(heat)} ${broken ? "unknown" : short(shown.heat.most[node])}`;
}

/** The bar of the heat column, on a logarithmic scale. @param {Store} store */
function heatCell(store, shown, node) {
  const { heat } = store.ui;
  if (heat === "error" && shown.changed?.[node] === 0) return h("span.note", { title: "equal bit for bit", role: "img", "aria-label": heatWords(store, shown, node) }, "=");
  if (!shown.heat || shown.heat.most[node] < 0) return null;
  const value = shown.heat.most[node];
  const { low, high } = shown.heat;
  const share = value <= 0 ? 0 : high <= low ? 1 : Math.max(0.02, Math.log(value / low) / Math.log(high / low));
  const broken = heat === "error" && shown.broken?.[node] > 0;
  return h("span.heat", { role: "img", "aria-label": heatWords(store, shown, node), title: `${heatText(heat)} ${broken ? "unknown: there is none to what is not finite" : exact(value)}` },
    h("span.bar", { style: `width:${(Math.min(1, share) * 100).toFixed(0)}%` }), h("span.heatnum", null, broken ? "–" : short(value)));
}

/** @param {View} view */
export function scrollTo(view, pane) {
  const shown = view.store.visible();
  if (!shown) return;
  const at = shown.nodes.indexOf(view.store.ui.node);
  if (at < 0) return;
  const full = shown.nodes.length * ROW;
  const height = Math.min(full, TALLEST);
  const room = pane.grid.clientHeight;
  const share = full === height ? 1 : (full - room) / (height - room);
  const top = pane.grid.scrollTop * share;
  if (at * ROW < top) pane.grid.scrollTop = (at * ROW) / share;
  else if ((at + 1) * ROW > top + room) pane.grid.scrollTop = ((at + 1) * ROW - room) / share;
  paintRows(view, pane);
}
