/** The result pane: the outcome in one sentence, then its tabs. */

import { diffPanel } from "./diff.js";
import { button, figures, fill, freshId, h } from "./dom.js";
import { tabKey } from "./keyboard.js";
import { logPanel } from "./log.js";
import { count, farText, gradientNorm, number } from "./numbers.js";
import { propagationPanel } from "./propagation.js";
import { earlierText } from "./ran.js";
import { sweepPanel } from "./sweep.js";
import { trainingPanel } from "./training.js";

/** @import { MakePane, View } from "./dom.js" */
/** @import { Store } from "./store.js" */

const TABS = [["diff", "Tensor diff"], ["propagation", "Propagation"], ["training", "Training"], ["sweep", "Sweep"], ["log", "Log"]];

/** Whether a tab shows the last replay. @param {string} tab */
const ofReplay = (tab) => tab !== "sweep" && tab !== "log";

/** What tells a tab of more while something runs. @type {Record<string, string>} */
const LIVE = { training: "steps", sweep: "sweep" };

/** @type {MakePane} */
export function resultPane(view) {
  const { store } = view;
  const head = h("div.outcome");
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "result",
    onkeydown: (event) => tabKey(event, (each) => choose_(each.dataset.key)) });
  const ids = freshId();
  const body = h("div.body", { role: "tabpanel", tabindex: 0, id: ids });
  const el = h("section.pane.result", { "aria-label": "result", "data-name": "result" }, head, tabs, body);
  const choose_ = (name) => {
    store.ui.tab = name;
    store.changed("tab");
    el.scrollTop = head.offsetHeight; // what was chosen is seen, however long the words above it are
  };
  let told = 0;
  return {
    el,
    update(topics) {
      if (store.runs > told) {
        told = store.runs;
        el.scrollTop = 0;
        if (store.run && !ofReplay(store.ui.tab)) store.ui.tab = "diff";
        view.say(spokenOutcome(store));
      }
      const { tab } = store.ui;
      head.hidden = !ofReplay(tab);
      if (topics.includes("site")) view.follow?.();
      if (topics.some((t) => ["plan", "state", "trace"].includes(t))) fill(head, outcome(store));
      const live = topics.includes(LIVE[tab]);
      if (!live && !topics.some((t) => ["run", "figures", "tab", "log", "hello"].includes(t))) return;
      fill(tabs, TABS.map(([name, text]) => button(text, () => choose_(name), {
        role: "tab", id: `${ids}-${name}`, "aria-controls": ids, "aria-selected": tab === name, tabindex: tab === name ? 0 : -1, "data-key": name }, "tab")));
      body.setAttribute("aria-labelledby", `${ids}-${tab}`);
      fill(head, outcome(store));
      if (topics.every((t) => t === "log") && tab !== "log") return;
      view.follow = undefined;
      const shown = PANELS[tab](view);
      if (shown.length > 1 || body.firstChild !== shown[0]) fill(body, shown);
    },
  };
}

/** The outcome as it is said aloud, once for each replay. @param {Store} store */
function spokenOutcome({ run }) {
  return run ? `${run.outcome.name.replaceAll("_", " ")}: ${run.outcome.reason}` : "";
}

/** The outcome in one sentence, and the figures that a person asks first. @param {Store} store */
function outcome(store) {
  const { run } = store;
  if (!run) return [h("div.empty", null, unrunText(store))];
  const { comparison } = run;
  const earlier = earlierText(store);
  const where = run.steps.golden.length > 1 ? ` · step ${comparison.step}` : "";
  return [
    earlier ? h("div.warning", null, earlier) : null,
    h("div.verdict", { "data-outcome": run.outcome.name, "data-run": store.runs }, h("strong", null, run.outcome.name.replaceAll("_", " ")),
      h("span", null, ` ${run.outcome.reason}`),
      run.outcome.detected_by.map((name) => [" ", h("span.chip", null, `detected by ${name.replaceAll("_", " ")}`)])),
    run.not_injected.map(({ fault, reason }) => h("div.warning", null, `${fault} not injected: ${reason}`)),
    run.error ? h("div.warning", null, run.error) : null,
    h("div.tiles", null, tile(comparison.loss.name + where, comparison.loss), comparison.gradients.total ? tile(gradientNorm(comparison) + where, comparison.gradient_norm) : null,
      countTile(`sites that differ${where}`, comparison.diverged, comparison.compared),
      comparison.gradients.total ? countTile(`gradients that differ${where}`, comparison.gradients.differing, comparison.gradients.total) : null),
  ];
}

/** What is to be done for a result, before there is one. @param {Store} store */
export function unrunText({ state, trace, plan, lost }) {
  const compared = "golden and faulty run of the step are compared here.";
  if (lost) return "Nothing was replayed.";
  if (state.state !== "idle") return `${state.state} …`;
  if (!trace) return `When the step is traced, arm a fault and press Replay: ${compared}`;
  if (plan.faults.some((fault) => fault.enabled)) return `Press Replay: ${compared}`;
  return `${plan.faults.length ? "Switch on" : "Arm"} a fault and press Replay: ${compared}`;
}

/** @param {number} total */
function countTile(name, n, total) {
  return h("div.tile", null, h("span.key", null, name), h("span.big.num", null, count(n)), h("span.note", null, ` of ${count(total)}`));
}

/** Golden against faulty. */
function tile(name, difference) {
  const { golden, faulty, equal, note, relative_l2: far } = difference;
  if (note && !Number.isFinite(number(golden))) return h("div.tile", null, h("span.key", null, name), h("span.note", null, note));
  const [before, after] = figures(golden, faulty);
  return h("div.tile", null, h("span.key", null, name),
    h("span.big", null, before, equal ? h("span.equal", null, " = ") : " → ", after),
    h("span.note", null, equal ? ` ${note || "bit for bit"}` : ` relative\u00a0${farText(golden, faulty, far)}`));
}

/** What each tab shows. @type {Record<string, (view: View) => any[]>} */
const PANELS = { diff: diffPanel, propagation: propagationPanel, training: trainingPanel, sweep: sweepPanel, log: logPanel };
