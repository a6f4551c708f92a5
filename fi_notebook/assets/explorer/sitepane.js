/** The site card: where, which call, source, statistics, values, fault, plan. */

import { button, fill, h, phaseTag, select } from "./dom.js";
import { formPart } from "./form.js";
import { siteText } from "./names.js";
import { STATISTICS, typeText } from "./nodes.js";
import { clip, count, plural, shareText, short } from "./numbers.js";
import { planPart } from "./plan.js";
import { sourceExcerpt } from "./source.js";
import { sparkline } from "./spark.js";
import { statistic } from "./statistics.js";
import { sweepPart } from "./sweep.js";
import { valuesPart } from "./values.js";

/** @import { MakePane, View } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @type {MakePane} */
export function sitePane(view) {
  const { store } = view;
  const facts = h("div.facts");
  const values = valuesPart(view);
  const form = formPart(view);
  const sweep = sweepPart(view);
  const plan = planPart(view);
  const empty = h("div.empty", null, "Choose a call in the tree to see its line and values, and what can go wrong there.");
  const body = h("div.body", null, empty, facts, values.el, form.el, sweep.el, plan.el);
  const el = h("section.pane.site", { "aria-label": "site", tabindex: -1, "data-name": "site" }, body, form.bar);
  return {
    el,
    update(topics) {
      const chosen = store.trace !== null && store.ui.row >= 0;
      empty.hidden = chosen;
      facts.hidden = values.el.hidden = form.el.hidden = sweep.el.hidden = !chosen;
      plan.update(topics);
      if (chosen && topics.some((t) => ["trace", "site", "frame", "run"].includes(t))) {
        fill(facts, siteFacts(view, store.ui.row));
      }
      form.bar.hidden = !chosen;
      if (chosen) {
        values.update(topics);
        form.update(topics);
        sweep.update(topics);
      }
    },
  };
}

/** @param {View} view */
function siteFacts(view, row) {
  const { store } = view;
  const { data, columns } = store.trace;
  const flags = data.flags.filter((_, bit) => columns.flags[row] & (1 << bit) && data.flags[bit] !== "folded");
  return [
    h("h3.title", null, siteText(store.trace, row), " ", phaseTag(data.phases[columns.phase[row]]),
      h("span.type", null, ` ${typeText(store, row)}`), flags.map((flag) => h("span.chip", null, flag))),
    breadcrumb(view, row),
    callSelector(view, row),
    sourceExcerpt(view, row),
    statistics(store, row),
    effectLine(store, row),
  ];
}

/** What the last replay did to the site. @param {Store} store */
function effectLine(store, row) {
  const { errors, run } = store;
  if (!errors || errors.changed[row] < 0) return null;
  const name = run.effects[errors.effect[row]] ?? "";
  const far = errors.bad[row] > 0 ? `${plural(errors.bad[row], "element")} newly not finite` : `relative L2 ${short(errors.error[row])}`;
  const told = errors.changed[row] === 0 ? "equal bit for bit"
    : `${name}: ${plural(errors.changed[row], "element")} differ${errors.changed[row] === 1 ? "s" : ""}, ${far}`;
  return h("div.effect", { "data-changed": errors.changed[row] > 0 }, h("span.key", null, "last replay "), told);
}

/** Modules above the site; each leads to its place in the tree. @param {View} view */
function breadcrumb(view, row) {
  const { store } = view;
  const { data, columns } = store.trace;
  const [path, kind] = data.modules[columns.module[row]];
  const parts = kind && path ? path.split(".") : [];
  const go = (query) => {
    store.ui.query = query;
    store.changed("tree", "reveal");
  };
  const root = data.modules.find(([each]) => each === "");
  return h("nav.crumbs", { "aria-label": "module" },
    kind ? button(root?.[1] || "model", () => go(""), {}, "link") : h("span", null, path),
    parts.map((part, i) => [h("span", { "aria-hidden": "true" }, " › "),
      button(clip(part, 60), () => go(`module:${parts.slice(0, i + 1).join(".")}`), {}, "link")]),
    columns.parameter[row] >= 0 ? h("span", null, ` · ${clip(data.parameters[columns.parameter[row]])}`) : null);
}

/** Rows of the same operator and output, in execution order. */
function kin(trace, row) {
  const { op, output, counted, index } = trace.columns;
  const rows = [];
  for (let at = 0; at < trace.size; at += 1) {
    if (op[at] === op[row] && output[at] === output[row] && counted[at] === counted[row] && index[at] === index[row]) rows.push(at);
  }
  return rows;
}

/** "call k of n" with a curve over the calls, and the call's other outputs.
 * @param {View} view */
function callSelector(view, row) {
  const { store } = view;
  const { columns, data } = store.trace;
  const rows = kin(store.trace, row);
  const at = rows.indexOf(row);
  const step = (by) => store.reveal(rows[at + by]);
  const outputs = [];
  for (let each = row; each >= 0 && columns.call[each] === columns.call[row]; each -= 1) outputs.unshift(each);
  for (let each = row + 1; each < store.trace.size && columns.call[each] === columns.call[row]; each += 1) outputs.push(each);
  return h("div.calls", null,
    button("‹", () => step(-1), { disabled: at <= 0, "aria-label": "previous call" }, "small"),
    h("span.num", null, `call ${count(at + 1)} of ${count(rows.length)}`),
    button("›", () => step(1), { disabled: at + 1 >= rows.length, "aria-label": "next call" }, "small"),
    rows.length > 1 ? sparkline(rows.map((each) => columns.std[each]), at) : null,
    outputs.length > 1 ? select(String(row), outputs.slice(0, 300).map((each) => [String(each),
      `output ${columns.output[each]}${columns.index[each] < 0 ? "" : `[${columns.index[each]}]`}`]),
    (value) => store.reveal(Number(value)), { "aria-label": "output" }) : null);
}

/** @param {Store} store */
function statistics(store, row) {
  const stats = store.site?.row === row ? store.site.stats : Object.fromEntries(
    STATISTICS.map((name) => [name, store.trace.columns[name][row]]));
  const numel = store.shapeOf(row).reduce((a, b) => a * b, 1);
  if (stats.zeros < 0) return h("div.empty", null, "no statistics were taken here");
  const cell = (name, value, bad) => h("div.stat", { "data-bad": bad }, h("span.key", null, name), value);
  return h("div.stats", { role: "group", "aria-label": "statistics" },
    ["min", "max", "mean", "std", "norm"].map((name) => cell(name, statistic(name, stats[name], store.dtypeOf(row)))),
    [["NaN", stats.nan], ["+Inf", stats.posinf], ["−Inf", stats.neginf]].map(([name, n]) => cell(name, count(n), n > 0)),
    cell("zeros", h("span.num", { title: `${stats.zeros} of ${numel}` }, numel ? shareText(stats.zeros, numel) : "–")),
    cell("elements", count(numel)));
}
