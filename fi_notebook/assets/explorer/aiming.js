/** Aiming the form's fault at elements: one, or those of a stroke over the picture. */

import { placeOf } from "./plane.js";
import { elementIndex } from "./reading.js";

/** @import { Store } from "./store.js" */

/** Choose an element; the form aims at it. @param {Store} store @param {number[]} element
 * @param {string | null} [text] how it was typed */
export function choose(store, element, text = null) {
  const { ui } = store;
  ui.element = ui.anchor = element;
  ui.elementText = text;
  if (store.site?.values && !placeOf(store.site.values, element)) ui.corner = null;
  ui.form.extent = "index";
  store.changed("element");
  store.inspect();
}

/** Choose the element whose index was typed; none where that is no index of the tensor: then the
 * form says why, and nothing else stays aimed at. @param {Store} store @param {string} text */
export function chooseTyped(store, text) {
  const { ui } = store;
  const shape = store.shapeOf(ui.row);
  try {
    if (text.trim() || !shape.length) return choose(store, elementIndex(text, shape), text);
  } catch { /* the form says why */ }
  Object.assign(ui, { element: null, anchor: null, cursor: null, elementText: text });
  store.changed("element", "lens");
  store.inspect();
}

/** Aim at several elements. @param {Store} store @param {[string, any] | null} chosen */
export function aim(store, chosen) {
  if (!chosen) return;
  store.ui.turned = true;
  store.ui.form.extent = chosen[0];
  store.ui.form.extentText = JSON.stringify(chosen[1]);
  store.changed("element");
}

/** Show the window of the tensor that begins here. @param {Store} store @param {number[]} corner */
export function turnTo(store, corner) {
  store.ui.corner = corner;
  store.ui.turned = true;
  store.inspect();
}
