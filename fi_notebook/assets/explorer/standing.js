/** What Arm would do at a site, by what is armed there already: nothing where a fault says the very
 * same, change a fault, or arm one more. */

import { edited, elementOf, formOf, uneditable } from "./editing.js";
import { readForm } from "./fault.js";

/** @import { Store } from "./store.js" */
/** What the button does, and with which fault.
 * @typedef {{ kind: "arm" | "change" | "armed", fault?: string, site?: string }} Standing */

/** What the button that arms would do. @param {Store} store @param {number} row @returns {Standing} */
export function standingAt(store, row) {
  const editing = edited(store);
  if (editing) return { kind: "change", fault: editing.fault, site: editing.site };
  const { request, problems } = readForm(store, row);
  const here = aimedAt(store, row, request.site);
  const same = problems.length ? null : here.find((fault) => says(store, row, fault, request));
  if (same) return { kind: "armed", fault: same.id, site: same.target };
  const last = here.filter((fault) => !uneditable(store, fault)).at(-1);
  return last ? { kind: "change", fault: last.id, site: last.target } : { kind: "arm" };
}

/** The fault that a request is to stand in place of. @param {Standing} standing */
export function inPlaceOf({ fault, site }) {
  return fault === undefined ? {} : { fault, site };
}

/** The faults that are on and strike what the form aims at: this call alone, or every call.
 * @param {Store} store @param {number} row @param {string} site */
function aimedAt({ plan, ui }, row, site) {
  const aims = ui.form.calls === "every" ? ({ target }) => target === site : ({ rows }) => rows.length === 1 && rows[0] === row;
  return plan.faults.filter((fault) => fault.enabled && aims(fault));
}

/** Whether a fault is what this request would arm: it was just armed by it, or would be asked for
 * in the same words. @param {Store} store @param {number} row @param {Record<string, any>} request */
function says(store, row, fault, request) {
  const { justArmed } = store.ui;
  if (justArmed?.fault === fault.id && justArmed.code === fault.code) return justArmed.request === JSON.stringify(request);
  if (Object.keys(fault.filters ?? {}).length) return false;
  const ui = { ...store.ui, form: formOf(fault), element: elementOf(fault.elements, store.shapeOf(row)), elementText: null };
  const its = readForm(Object.assign(Object.create(store), { ui }), row).request;
  return JSON.stringify({ ...its, site: request.site }) === JSON.stringify(request);
}
