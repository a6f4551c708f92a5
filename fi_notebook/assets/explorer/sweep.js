/** Many faults from the site's card: every bit of the chosen or of drawn elements, or a module and all
 * below it. */

import { campaignPart } from "./campaign.js";
import { button, field, fill, h, input, select } from "./dom.js";
import { siteText } from "./names.js";
import { clip, plural } from "./numbers.js";
import { wholeNumber } from "./reading.js";

/** @import { MakePane, View } from "./dom.js" */
/** @import { Store } from "./store.js" */

const SITE = "this site";
const ELEMENT = "this element";

/** How many are asked for at first. @param {string} where */
const usualCount = (where) => (where === SITE ? "8" : "400");

/** @type {MakePane} */
export function sweepPart(view) {
  const { store } = view;
  const asked = { where: SITE, count: usualCount(SITE) };
  const fields = h("fieldset.fields");
  const told = h("div.note", { role: "status" });
  const problem = h("div.problem", { role: "alert" });
  const ask = async (kind) => {
    problem.textContent = "";
    try {
      return await store.ask(kind, sweepRequest(store, asked));
    } catch (error) {
      problem.textContent = error.message;
      return null;
    }
  };
  const redraw = () => fill(fields, sweepFields(store, asked, redraw));
  const dry = button("Estimate", async () => {
    told.textContent = "trying a few …";
    told.textContent = sweepNote(store, asked) + ((await ask("plan_sweep"))?.text ?? "");
  }, { title: "how many, how long, how wide the intervals will be" });
  const start = button("Start sweep", async () => {
    Object.assign(store.ui, { tab: "sweep", pane: "result" });
    store.changed("tab", "pane");
    const note = told.textContent = sweepNote(store, asked);
    told.textContent = note + ((await ask("sweep"))?.note ?? "");
  });
  const el = h("details.more.sweep", null, h("summary", null, "Sweep …"), fields, told, problem, h("div.actions", null, dry, start));
  return {
    el,
    update(topics) {
      el.hidden = store.readonly;
      if (topics.includes("state")) {
        fields.disabled = Boolean(store.lost);
        dry.disabled = start.disabled = fields.disabled || store.state.state !== "idle";
      }
      if (!topics.some((t) => ["site", "trace", "element"].includes(t))) return;
      if (!topics.every((t) => t === "element") || (asked.where === ELEMENT && !store.ui.element)) {
        Object.assign(asked, { where: SITE, count: usualCount(SITE) });
        told.textContent = problem.textContent = "";
      }
      redraw();
    },
  };
}

/** @param {Store} store @param {{ where: string, count: string }} asked @param {() => void} redraw */
function sweepFields(store, asked, redraw) {
  const [path, kind] = store.trace.data.modules[store.trace.columns.module[store.ui.row]];
  const parts = kind && path ? path.split(".") : [];
  const modules = parts.map((_, i) => parts.slice(0, i + 1).join(".")).reverse();
  const { element } = store.ui;
  const places = [[SITE, "every bit of drawn elements"], ...(element ? [[ELEMENT, `every bit of element [${element.join(", ")}]`]] : []),
    ...modules.map((name) => [`module ${name}`, `module ${clip(name, 40)} and all below it`]), ["module ", "the whole model"]];
  const choose = (where) => {
    Object.assign(asked, { where, count: usualCount(where) });
    redraw();
  };
  const box = input(asked.count, (text) => { asked.count = text; }, { size: 6, inputmode: "numeric", "aria-label": "count of the sweep" });
  const label = asked.where === SITE ? ["drawn elements", "elements of the site that are drawn; every bit of each is flipped"]
    : ["injections", "faults that are drawn, each at a call and an element of its own"];
  return [field("what is tried", select(asked.where, places, choose, { "aria-label": "what is swept" })),
    asked.where === ELEMENT ? null : field(label[0], box, label[1])];
}

/** That a site has fewer elements than were asked for. @param {Store} store
 * @param {{ where: string, count: string }} asked */
export function sweepNote(store, { where, count: given }) {
  const elements = store.shapeOf(store.ui.row).reduce((a, b) => a * b, 1);
  return where === SITE && Number(given) > elements ? `The site has ${plural(elements, "element")}: all of them are taken. ` : "";
}

/** @param {Store} store @param {{ where: string, count: string }} asked */
function sweepRequest(store, { where, count }) {
  const site = siteText(store.trace, store.ui.row);
  if (where === ELEMENT) return { site, count: 1, element: store.ui.element };
  const number = Number(wholeNumber(count.trim(), `type how many ${where === SITE ? "elements" : "injections"}`));
  if (where === SITE) return { site, count: number };
  return { module: where.slice("module ".length), count: number };
}

/** Result, the tab of sweeps. @param {any} view */
export function sweepPanel(view) {
  const { store } = view;
  if (!store.sweep) return [h("div.empty", null, "No sweep yet. Choose any call in the tree and open Sweep … below its fault: many faults are tried and counted, at that call, in a module or in the whole model.")];
  view.sweep ??= campaignPart(view, store.readonly ? null : (row) => armRow(view, row));
  view.sweep.update(store.sweep, store.sweepPictures);
  return [view.sweep.el];
}

/** Arm the fault of a row, and show its site. @param {View} view */
async function armRow(view, row) {
  const { store } = view;
  const fault = await store.tell("arm_injection", { number: row.id });
  if (!fault) return;
  view.say(`armed injection ${row.id}`);
  store.reveal(store.plan.faults.find((each) => each.id === fault)?.rows[0] ?? -1);
}
