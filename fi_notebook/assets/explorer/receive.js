/** What each message of the kernel changes in the store. */

import { changedFaults, planChange } from "./changes.js";

/** @import { Store } from "./store.js" */

/** Keeps the data of a message as it is. @param {string} name @param {...string} topics */
function kept(name, ...topics) {
  return (store, data) => {
    store[name] = data;
    store.changed(...topics);
  };
}

/** What each message of the kernel changes. @type {Record<string, (s: Store, d: any, c: any) => void>} */
export const RECEIVERS = {
  hello(store, data) {
    store.hello = data;
    store.changed("hello", "state");
    if (data.superseded) store.lose("superseded by a newer session of this model");
  },
  figures: kept("figures", "figures"),
  steps(store, data) {
    if (!store.replaying) return; // they came after its result, or after Stop
    store.steps = data;
    store.changed("state", "steps");
  },
  state(store, data) {
    if (data.state !== store.state.state) store.replaying = data.state === "replaying";
    store.state = data;
    if (!store.replaying && store.steps) {
      store.steps = null;
      store.changed("steps");
    }
    if (data.state !== "idle") store.failed = store.told = "";
    store.changed("state");
  },
  trace(store, data, columns) {
    const same = store.trace && store.trace.size === data.sites;
    store.trace = { data, columns, size: data.sites };
    store.trees = {};
    if (!same) {
      store.open = {};
      store.ui.row = store.ui.node = -1;
      store.ui.editing = store.ui.justArmed = store.site = null;
    }
    store.changed("trace", "tree", "site");
    if (store.ui.row >= 0) store.inspect();
  },
  sweep: kept("sweep", "sweep"),
  sweep_pictures: kept("sweepPictures", "sweep"),
  plan(store, data) {
    const before = store.planned ? store.plan.faults : data.faults;
    const change = planChange(before, data.faults);
    if (change) store.note("info", change, changedFaults(before, data.faults));
    Object.assign(store, { plan: data, planned: true, change });
    store.armed = new Map();
    store.told = "";
    store.off = new Set(data.faults.filter((fault) => !fault.enabled).map((fault) => fault.id));
    for (const fault of data.faults) {
      for (const row of fault.rows) store.armed.set(row, [...(store.armed.get(row) ?? []), fault.id]);
    }
    store.changed("plan", "tree");
  },
  run(store, data, columns) {
    store.run = data;
    store.runs += 1;
    store.errors = data ? columns : null;
    store.replaying = false;
    store.steps = null;
    store.figures = { figures: {}, texts: {}, awaited: Boolean(data) };
    store.ui.injection = 0;
    if (data) {
      store.ui.heat = "error";
      store.ui.pane = "result";
      for (const each of data.not_injected) store.note("warning", `${each.fault} not injected: ${each.reason}`);
      for (const text of data.messages) store.note("info", text);
      store.note("info", `${data.outcome.name}: ${data.outcome.reason}`);
    } else if (store.ui.heat === "error") store.ui.heat = "std";
    store.changed("run", "tree", "plan", "pane");
  },
  reply(store, data) {
    store.waiting.get(data.id)?.resolve(data.data);
    store.waiting.delete(data.id);
  },
  error(store, data) {
    const waiting = store.waiting.get(data.id);
    store.waiting.delete(data.id);
    if (!waiting) return store.fail(data.text, data.traceback);
    if (!waiting.quiet) store.note("error", data.text, data.traceback);
    waiting.reject(new Error(data.text));
  },
  plotly(store, data, columns) {
    store.onPlotly?.(new TextDecoder().decode(columns.source));
  },
};
