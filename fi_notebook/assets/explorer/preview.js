/** What a fault would do to the recorded values; nothing runs. */

import { h } from "./dom.js";
import { inPlace } from "./editing.js";
import { elementTable } from "./elements.js";
import { requestOf } from "./fault.js";
import { plural } from "./numbers.js";

/** @import { Store } from "./store.js" */

/** Ask what the form's fault would do; the answer is the store's `preview`.
 * @param {Store} store */
export function askPreview(store) {
  clearTimeout(store.previewTimer);
  const { row } = store.ui;
  if (store.readonly || store.lost || row < 0) return;
  store.previewTimer = setTimeout(async () => {
    const found = await previewed(store, row);
    if (store.ui.row !== row || store.lost) return;
    store.preview = { row, ...found };
    store.changed("preview");
  }, 150);
}

/** @param {Store} store @param {number} row */
async function previewed(store, row) {
  try {
    const { form, element } = store.ui;
    if (form.extent === "index" && !element) return { note: "Click an element in the picture above, or type its index." };
    return await store.ask("preview", { ...requestOf(store, row), ...inPlace(store), row });
  } catch (error) {
    return { problem: error.message };
  }
}

/** The preview as a table. @param {Store} store */
export function previewTable({ preview, ui }) {
  if (!preview || preview.row !== ui.row || preview.problem) return [];
  const note = preview.note ? h("div.note", null, preview.note) : null;
  if (!preview.elements) return [note];
  const when = preview.step ? `, by the draws of step ${preview.step} on the values of step 0` : "";
  return [note, preview.comes_up ? null : h("div.warning", null, `its probability does not come up in step ${preview.step}`),
    h("div.note", null, `preview: ${plural(preview.changed, "element")} would change${when}`),
    elementTable(preview.elements.slice(0, 4), preview.dtype, "preview")];
}
