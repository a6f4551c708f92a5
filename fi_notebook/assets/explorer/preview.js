/** What a fault would do to the recorded values; nothing runs. */

import { h } from "./dom.js";
import { elementTable } from "./elements.js";
import { plural } from "./numbers.js";

/** @import { Store } from "./store.js" */

/** Show what the fault would do to the recorded values. @param {Store} store */
export function askPreview(store, place, problem) {
  clearTimeout(store.previewTimer);
  const { row } = store.ui;
  if (store.readonly || store.lost || row < 0 || !store.site?.values) return;
  store.previewTimer = setTimeout(async () => {
    try {
      const found = await store.ask("preview", store.request(row));
      if (store.ui.row === row) place.replaceChildren(previewTable(found));
    } catch (error) {
      problem.textContent = error.message;
      place.replaceChildren();
    }
  }, 150);
}

function previewTable(found) {
  if (found.note) return h("div.note", null, found.note);
  return h("div", null, h("div.note", null, `preview: ${plural(found.changed, "element")} would change`),
    elementTable(found.elements.slice(0, 4), found.dtype, "preview"));
}
