/** Views, search, count, alert and the phase strip. */

import { button, h } from "./dom.js";
import { count, plural } from "./numbers.js";
import { VIEWS } from "./views.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** Views, search, count and the phase strip. @type {MakePane} */
export function headPane(view) {
  const { store } = view;
  const tabs = h("div.tabs", { role: "group", "aria-label": "view of the tree" });
  const box = h("input.search", {
    type: "search", spellcheck: "false", "aria-label": "search the calls",
    placeholder: "search:  relu  op:mm  phase:backward  module:conv1  bad:nan  armed:",
    oninput: () => {
      store.ui.query = box.value;
      store.changed("tree");
    },
  });
  const found = h("span.found", { role: "status" });
  const phases = h("div.phases", { role: "group", "aria-label": "phases" });
  const el = h("div.head", null, tabs, box, found, phases);
  return {
    el,
    update(topics) {
      if (!topics.some((t) => ["trace", "tree", "run", "plan", "reveal"].includes(t))) return;
      if (box.value !== store.ui.query) box.value = store.ui.query;
      tabs.replaceChildren(...VIEWS.map((name) => viewTab(store, name)));
      found.replaceChildren(foundText(store), " ", alertButton(store));
      phases.replaceChildren(...phaseButtons(store));
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

/** How many outputs are not finite, by cause; a click goes to the next that began it.
 * @param {Store} store */
function alertButton(store) {
  const { alert } = store.trace?.columns ?? {};
  const [, critical, high, medium] = [0, 1, 2, 3].map((kind) => alert?.filter((each) => each === kind).length);
  if (!critical && !high && !medium) return "";
  const next = () => {
    const wanted = critical ? 1 : 2;
    const after = alert.indexOf(wanted, store.ui.row + 1);
    store.reveal(after < 0 ? alert.indexOf(wanted) : after);
  };
  return button(`⚠ ${count(critical + high)} not finite: ${critical} began here`, next, {
    title: `critical ${critical}: finite in, not out; high ${high}: bad in and out; medium ${medium}: bad in, finite out`,
  }, "alert");
}

/** Always "n of N". @param {Store} store */
function foundText(store) {
  const shown = store.visible();
  return shown ? `${count(shown.total)} of ${plural(store.trace.size, "site")}` : "";
}

/** @param {Store} store */
function phaseButtons(store) {
  if (!store.trace) return [];
  const { data, columns, size } = store.trace;
  const sizes = new Int32Array(data.phases.length);
  for (const phase of columns.phase) sizes[phase] += 1;
  const fold = 1 << data.flags.indexOf("folded");
  let folded = 0;
  for (let row = 0; row < size; row += 1) if (columns.flags[row] & fold) folded += 1;
  const strip = data.phases.map((name, phase) =>
    sizes[phase] ? phaseButton(store, name, phase, sizes[phase]) : null).filter(Boolean);
  if (folded) {
    strip.push(button(`folded ${count(folded)}`, () => {
      store.ui.folded = !store.ui.folded;
      store.changed("tree");
    }, { "aria-pressed": store.ui.folded, title: "detach, profiler and factory calls" }, "toggle"));
  }
  return strip;
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
