/** Aiming the form's fault at elements: one, or those of a stroke over the picture. */

import { placeOf } from "./plane.js";

/** @import { Store } from "./store.js" */

/** Choose an element; the form aims at it. @param {Store} store @param {number[]} element */
export function choose(store, element) {
  const { ui } = store;
  ui.element = ui.anchor = element;
  if (store.site?.values && !placeOf(store.site.values, element)) ui.corner = null;
  ui.form.extent = "index";
  store.changed("element");
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
