/** Editing an armed fault in place: it fills the form, and arming puts it back under its name. */

import { unflat } from "./plane.js";

/** @import { Store } from "./store.js" */

/** The form that describes a fault. */
export function formOf(fault) {
  const [extent, text] = selectionOf(fault.elements);
  const given = (value) => (value === null || value === undefined ? "" : String(value));
  return {
    model: fault.model, parameters: { ...fault.parameters }, extent, extentText: text,
    steps: given(fault.steps), seed: given(fault.seed), times: given(fault.times),
    probability: fault.probability === 1 ? "" : given(fault.probability),
    scope: fault.scope === "value" ? "" : fault.scope,
    ranks: given(fault.ranks), micro_batches: given(fault.micro_batches),
  };
}

/** Name and argument of a choice of elements. @returns {[string, string]} */
function selectionOf(elements) {
  if (typeof elements === "string") return [elements, ""];
  const [[name, value]] = Object.entries(elements);
  return [name, typeof value === "string" ? value : JSON.stringify(value)];
}

/** Coordinates of the one element that a fault strikes; null where it says more than one.
 * @param {any} elements @param {number[]} shape @returns {number[] | null} */
export function elementOf(elements, shape) {
  const index = elements.index;
  const fromStart = (at, size) => (at < 0 ? at + size : at);
  if (Array.isArray(index)) return index.every(Number.isInteger) ? index.map((at, axis) => fromStart(at, shape[axis])) : null;
  if (!Number.isInteger(index)) return null;
  return unflat(shape, fromStart(index, shape.reduce((a, b) => a * b, 1)));
}

/** Why a fault cannot be edited here, or "". @param {Store} store */
export function uneditable(store, fault) {
  if (/^(param|buffer|grad|state):/.test(fault.target)) return "a stored tensor has no form; edit it in Python: session.arm(…) and session.disarm(…)";
  if (!fault.rows.length || !store.trace) return "the golden run made no such call";
  const several = fault.elements.index !== undefined && !elementOf(fault.elements, store.shapeOf(fault.rows[0]));
  return several ? "it names several elements; edit injector.json and load it" : "";
}

/** Put an armed fault into the form. @param {Store} store */
export function edit(store, fault) {
  const [row] = fault.rows;
  store.reveal(row);
  store.ui.form = formOf(fault);
  store.ui.element = elementOf(fault.elements, store.shapeOf(row)) ?? store.ui.element;
  store.ui.elementText = null;
  store.ui.editing = { row, fault: fault.id, site: fault.target, kept: null };
  store.ui.pane = "site";
  store.changed("form", "element", "site", "pane");
  store.inspect();
}

/** Keep what the form says of the edited fault, before another site is chosen. @param {Store} store */
export function keepEdited(store) {
  if (!edited(store)) return;
  const { form, element, elementText } = store.ui;
  store.ui.editing.kept = { form: structuredClone(form), element, elementText };
}

/** Put it back into the form where its own site is chosen again. @param {Store} store */
export function backToEdited(store) {
  const kept = edited(store)?.kept;
  if (kept) Object.assign(store.ui, kept);
}

/** The fault that is edited at the chosen site, or null. @param {Store} store */
export function edited(store) {
  const { editing, row } = store.ui;
  const still = editing?.row === row && store.plan.faults.some((each) => each.id === editing.fault);
  return still ? editing : null;
}

/** What a request to arm says more, where a fault is edited. @param {Store} store */
export function inPlace(store) {
  const editing = edited(store);
  return editing ? { fault: editing.fault, site: editing.site } : {};
}

/** Edit no more; the fault stays as it is. @param {Store} store */
export function leaveFault(store) {
  store.ui.editing = null;
  store.changed("form");
}
