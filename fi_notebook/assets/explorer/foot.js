/** The footer: state, Replay, Stop and what can be saved. */

import { showPane } from "./choosing.js";
import { button, copy, h } from "./dom.js";
import { planCode, planText } from "./fault.js";
import { clip } from "./numbers.js";
import { changeAloud } from "./plan.js";
import { wholeNumber } from "./reading.js";
import { restOf } from "./rest.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @type {MakePane} */
export function footPane(view) {
  const { store } = view;
  const state = h("span.state", { role: "status" });
  const why = button("why", () => {
    store.ui.tab = "log";
    store.changed("tab");
    showPane(store, "result");
  }, { title: "the log, with the traceback" }, "link");
  const bar = h("progress.progress", { max: 1, "aria-label": "progress" });
  const steps = h("input.input", { type: "number", min: 1, max: 100000, value: "1", "aria-label": "steps" });
  const ask = (kind, fields) => () => store.tell(kind, fields);
  const replay = button("Replay", () => (store.trace ? withSteps(store, steps.value, (n) => startReplay(store, n)) : store.tell("trace")), {}, "primary");
  const stop = button("Stop", ask("stop"));
  const disarm = button("Disarm all", () => changeAloud(view, "disarm"));
  const code = button("Copy as code", () => withSteps(store, steps.value, async (n) => {
    const text = planCode(store.plan, n);
    await copy(text, view.root);
    store.done("copied as code", text);
  }));
  const save = button("Save injector.json", async () => {
    const saved = await store.tell("save", { path: store.ui.path });
    if (saved) store.done(`saved ${saved.path}`, saved.whole);
  });
  const report = button("Save report", async () => {
    const saved = await store.tell("export", { path: "fi-report.html" });
    if (saved) store.done(`saved ${saved.path}`, saved.whole);
  });
  const armed = button("", () => {
    showPane(store, "site");
    view.root.querySelector(".fi-plan")?.scrollIntoView({ block: "nearest" });
  }, { title: "the plan, below the site" }, "link.armed");
  const live = h("span.steps", null, "steps ", steps);
  const rest = restOf([disarm, code, save, report]);
  const el = h("div.foot", { role: "group", "aria-label": "session" }, bar,
    h("div.told", null, state, why, armed), h("div.acts", null, replay, live, stop, rest));
  return {
    el,
    update() {
      const { text, kind, share } = stateText(store);
      if (state.textContent !== text) state.textContent = state.title = text;
      state.dataset.state = kind;
      why.hidden = kind !== "failed";
      armed.hidden = !store.plan.faults.length;
      armed.textContent = planText(store.plan.faults);
      bar.hidden = share === null;
      bar.value = share ?? 0;
      const dead = store.readonly || Boolean(store.lost);
      const busy = kind === "busy";
      replay.disabled = dead || busy;
      const action = store.trace || dead ? "Replay" : "Trace";
      if (replay.textContent !== action) replay.textContent = action;
      stop.disabled = dead || !busy;
      for (const each of [disarm, save]) each.disabled = dead || !store.plan.faults.length;
      report.disabled = dead || !store.trace;
      save.textContent = `Save ${clip(store.ui.path.split(/[\\/]/).pop(), 24)}`;
      for (const each of [replay, live, stop, rest]) each.hidden = store.readonly;
    },
  };
}

/** Replay so many steps; where there is no result yet, several are seen as they come.
 * @param {Store} store @param {number} n */
function startReplay(store, n) {
  if (n > 1 && !store.run && store.ui.tab === "diff") {
    store.ui.tab = "training";
    store.changed("tab");
  }
  return store.tell("replay", { steps: n });
}

/** Do something with the number of steps in the box, or say why it is none.
 * @param {Store} store @param {string} text @param {(steps: number) => any} use */
function withSteps(store, text, use) {
  let steps;
  try {
    steps = Number(wholeNumber(text.trim(), "type a whole number of steps from 1", 1n));
  } catch (error) {
    return store.fail(`steps: ${error.message}`);
  }
  return use(steps);
}

/** The state in words. @param {Store} store @returns {{ text: string, kind: string, share: number | null }} */
export function stateText(store) {
  const { state, note = "", progress } = store.state;
  if (store.readonly) return { text: "read-only report", kind: "idle", share: null };
  if (store.lost) return { text: `read-only: ${store.lost}`, kind: "error", share: null };
  if (progress && state !== "idle") {
    const share = (progress.done ?? 0) / Math.max(1, progress.total ?? 1);
    return { text: `${state} ${progress.text ?? ""}`, kind: "busy", share };
  }
  if (state !== "idle") return { text: note ? `${state}: ${note}` : state, kind: "busy", share: null };
  if (store.failed) return { text: clip(store.failed.split("\n")[0], 120), kind: "failed", share: null };
  const told = clip(store.told, 120);
  if (store.stale) return { text: [`stale: ${store.stale}; run the step's cell again`, told].filter(Boolean).join(" · "), kind: "warn", share: null };
  if (told) return { text: told, kind: "done", share: null };
  return { text: note || (store.trace ? "ready" : "idle"), kind: note ? "warn" : "idle", share: null };
}
