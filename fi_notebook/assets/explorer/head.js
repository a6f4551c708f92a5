/** Views, search, count, alert and the phase strip. */

import { button, fill, h } from "./dom.js";
import { count, plural } from "./numbers.js";
import { VIEWS } from "./views.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Trace } from "./names.js" */
/** @import { Store } from "./store.js" */

/** Views, search, count and the phase strip. @type {MakePane} */
export function headPane(view) {
  const { store } = view;
  const tabs = h("div.tabs", { role: "group", "aria-label": "view of the tree" });
  const box = h("input.search", {
    type: "search", spellcheck: "false", "aria-label": "search the calls",
    placeholder: "search:  relu  op:mm  phase:backward  module:conv1  bad:nan  armed:",
    title: "words, or fields: op: phase: module: code: dtype: bad: armed: effect: is: re:   A minus in front: all but these.",
    oninput: () => {
      store.ui.query = box.value;
      if (!box.value.trim() && store.ui.row >= 0) store.openAbove(store.ui.row);
      store.changed("tree");
    },
  });
  const found = h("span.found", { role: "status" });
  const alerts = h("div.alerts");
  const phases = h("div.phases", { role: "group", "aria-label": "phases" });
  const el = h("div.head", null, tabs, box, found, alerts, phases);
  return {
    el,
    update(topics) {
      if (!topics.some((t) => ["trace", "tree", "run", "plan", "reveal"].includes(t))) return;
      if (box.value !== store.ui.query) box.value = store.ui.query;
      fill(tabs, VIEWS.map((name) => viewTab(store, name)));
      const text = foundText(store);
      if (found.textContent !== text) found.textContent = text; // what is set is spoken
      found.toggleAttribute("data-bad", Boolean(store.visible()?.problem));
      fill(alerts, alertTiles(store));
      fill(phases, [phaseButtons(store), markButtons(store)]);
    },
  };
}

/** @param {Store} store */
function viewTab(store, name) {
  const titles = { modules: "Modules", source: "Source lines", operators: "Operators", timeline: "Timeline" };
  return button(titles[name], () => {
    store.ui.view = name;
    if (store.ui.row >= 0) store.reveal(store.ui.row);
    else {
      store.ui.node = -1;
      store.changed("tree");
    }
  }, { "aria-pressed": store.ui.view === name }, "tab");
}

const SEVERITIES = ["critical", "high", "medium"];

/** What the calls of a severity do, for people. @type {Record<string, (n: number) => string>} */
const DOINGS = {
  critical: (n) => (n === 1 ? "begins here" : "begin here"),
  high: (n) => (n === 1 ? "passes it on" : "pass it on"),
  medium: () => "finite again",
};

/** How many sites are of each phase, severity and mark; counted once per trace.
 * @type {WeakMap<Trace, any>} */
const SIZES = new WeakMap();

/** @param {Trace} trace */
function sizesOf(trace) {
  if (SIZES.has(trace)) return SIZES.get(trace);
  const { columns, data } = trace;
  const phases = data.phases.map(() => ({ folded: 0, all: 0 }));
  const folded = 1 << data.flags.indexOf("folded");
  columns.phase.forEach((phase, row) => {
    phases[phase].all += 1;
    if (columns.flags[row] & folded) phases[phase].folded += 1;
  });
  const marked = (flag) => columns.flags.reduce((n, flags) => n + ((flags >> data.flags.indexOf(flag)) & 1), 0);
  const alerts = SEVERITIES.map((_, at) => columns.alert.reduce((n, each) => n + (each === at + 1), 0));
  SIZES.set(trace, { phases, alerts, collective: marked("collective"), folded: marked("folded") });
  return SIZES.get(trace);
}

/** What is not finite: in the golden run by severity, and after a replay what is new.
 * @param {Store} store */
function alertTiles(store) {
  return store.trace ? [goldenAlert(store), faultyAlert(store)] : [];
}

/** A click goes to the next call that began it: finite in, not finite out. @param {Store} store */
function goldenAlert(store) {
  const { alert } = store.trace.columns;
  const sizes = sizesOf(store.trace).alerts;
  const [critical, high] = sizes;
  if (sizes.every((n) => !n)) return null;
  const wanted = critical ? 1 : high ? 2 : 3;
  return button([`⚠ ${count(critical + high)} not finite`,
    SEVERITIES.map((name, at) => sizes[at] ? h("span.severity", { "data-severity": name }, `${count(sizes[at])} ${DOINGS[name](sizes[at])}`) : null)],
  () => revealNext(store, (row) => alert[row] === wanted), {
    title: "go to the next call where it began. begin here: finite in, not out; pass it on: not finite in and out; finite again: not finite in, finite out",
  }, "alert");
}

/** A click goes to the next output that only the fault made not finite. @param {Store} store */
function faultyAlert(store) {
  const bad = store.errors?.bad;
  const sites = bad?.reduce((n, each) => n + (each > 0), 0);
  if (!sites) return null;
  return button(`⚠ ${count(sites)} newly not finite`, () => revealNext(store, (row) => bad[row] > 0), {
    title: "outputs that are not finite in the faulty run, unlike the golden one; go to the next",
  }, "alert");
}

/** Show the next site after the chosen one that passes, or the first. @param {Store} store */
function revealNext(store, passes) {
  const { size } = store.trace;
  for (let step = 1; step <= size; step += 1) {
    const row = (store.ui.row + step) % size;
    if (passes(row)) return store.reveal(row);
  }
}

/** Always "n of N". @param {Store} store */
function foundText(store) {
  const shown = store.visible();
  if (shown?.problem) return `cannot read the search: ${shown.problem}`;
  return shown ? `${count(shown.total)} of ${plural(store.trace.size, "site")}` : "";
}

/** @param {Store} store */
function phaseButtons(store) {
  if (!store.trace) return [];
  const { data } = store.trace;
  const sizes = sizesOf(store.trace).phases;
  return data.phases.map((name, phase) => {
    const { all, folded } = sizes[phase];
    return all ? phaseButton(store, name, phase, store.ui.folded ? all : all - folded) : null;
  });
}

/** Collectives, which a click searches, and what is folded away. @param {Store} store */
function markButtons(store) {
  if (!store.trace) return [];
  const { collective, folded } = sizesOf(store.trace);
  const searched = store.ui.query.trim() === "is:collective";
  const search_ = () => {
    store.ui.query = searched ? "" : "is:collective";
    store.changed("tree", "reveal");
  };
  const fold = () => {
    store.ui.folded = !store.ui.folded;
    store.changed("tree");
  };
  return [
    collective ? button(`⇄ collectives ${count(collective)}`, search_, { "aria-pressed": searched, title: "calls that move data between ranks" }, "toggle") : null,
    folded ? button(`folded ${count(folded)}`, fold, { "aria-pressed": store.ui.folded, title: "detach, profiler and factory calls" }, "toggle") : null,
  ];
}

/** @param {Store} store @param {number} size */
function phaseButton(store, name, phase, size) {
  const shown = !store.ui.hidden.has(phase);
  return button(`${name} ${count(size)}`, () => {
    if (shown) store.ui.hidden.add(phase);
    else store.ui.hidden.delete(phase);
    store.changed("tree");
  }, { "aria-pressed": shown, "data-phase": name }, "toggle");
}
