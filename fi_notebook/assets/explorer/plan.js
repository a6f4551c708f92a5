/** The plan: what is armed. */

import { button, copy, h, input } from "./dom.js";
import { edit, edited, uneditable } from "./editing.js";
import { triggerTexts } from "./fault.js";
import { clip, plural } from "./numbers.js";
import { statusOf } from "./ran.js";

/** @import { MakePane, View } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @type {MakePane} */
export function planPart(view) {
  const { store } = view;
  const list = h("div.faults", { role: "list" });
  const empty = h("div.empty", null, "nothing is armed");
  const tools = h("span.tools");
  const path = input(store.ui.path, (text) => {
    store.ui.path = text;
    store.changed("path");
  }, { "aria-label": "file of the plan", size: 14 });
  const load = async () => {
    const loaded = await store.tell("load", { path: path.value });
    if (loaded) store.done(`loaded ${loaded.path}: ${plural(loaded.faults, "fault")}`);
  };
  const file = h("div.planfile", null, path, button("Load", load, {
    title: "put the plan of this file in place of this one" }, "small"));
  const el = h("div.plan", { "aria-label": "plan", role: "group" }, h("h4", null, "Plan", tools), empty, list, file);
  return {
    el,
    update(topics) {
      if (!topics.some((t) => ["plan", "run", "state", "hello", "site", "form", "fault"].includes(t))) return;
      const { faults, undo, redo } = store.plan;
      tools.replaceChildren(...(store.readonly ? [] : [
        button("undo", () => changeAloud(view, "undo", {}, "undone: "), { disabled: !undo || Boolean(store.lost) }, "link"),
        button("redo", () => changeAloud(view, "redo", {}, "redone: "), { disabled: !redo || Boolean(store.lost) }, "link"),
        button("copy as JSON", () => copyJson(view), { disabled: !faults.length }, "link")]));
      file.hidden = store.readonly || Boolean(store.lost);
      list.replaceChildren(...faults.map((fault) => faultRow(view, fault)));
      list.hidden = !faults.length;
      empty.hidden = !list.hidden;
    },
  };
}

/** Change the plan, and say aloud what changed; a lead says how it came to it.
 * @param {View} view @param {string} kind @param {Record<string, any>} [fields] @param {string} [lead] */
export async function changeAloud(view, kind, fields = {}, lead = "") {
  const change = await view.store.changePlan(kind, fields);
  if (change) view.say(lead + change);
}

/** @param {View} view */
async function copyJson(view) {
  const { json } = view.store.plan;
  await copy(json, view.root);
  view.store.done("copied the plan as JSON", json);
}

/** @param {View} view */
function faultRow(view, fault) {
  const { store } = view;
  const ran = statusOf(store, fault);
  const missed = ran && store.run.not_injected.find((each) => each.fault === fault.id);
  const disabled = store.readonly || Boolean(store.lost);
  const status = !fault.enabled ? "off" : ran ?? "armed";
  const on = h("input", { type: "checkbox", checked: fault.enabled, disabled, "aria-label": `${fault.id} is on`,
    onchange: () => changeAloud(view, "enable", { fault: fault.id, on: on.checked }) });
  return h("div.fault", { role: "listitem", "data-status": status, "aria-current": edited(store)?.fault === fault.id }, on,
    button(clip([fault.text, ...triggerTexts(fault)].join(", "), 220), () => store.reveal(fault.rows[0] ?? -1), { title: fault.code }, "link"),
    h("span.chip", { "data-status": status }, status),
    store.readonly ? null : editButton(view, fault),
    store.readonly ? null : button("×", () => changeAloud(view, "disarm", { fault: fault.id }), { "aria-label": `disarm ${fault.id}`, disabled }, "small"),
    missed ? h("div.note", null, missed.reason) : null);
}

/** @param {View} view */
function editButton(view, fault) {
  const { store } = view;
  const why = store.lost || uneditable(store, fault);
  const edit_ = () => {
    edit(store, fault);
    view.say(`editing ${fault.id}`);
    requestAnimationFrame(() => view.toForm?.()); // when it is drawn
  };
  return button("edit", edit_, { "aria-label": `edit ${fault.id}`, disabled: Boolean(why),
    title: why || "change it in the form; it keeps its name and its place" }, "small");
}
