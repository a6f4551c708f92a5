/** What a fault would do to the recorded values; nothing runs. */

import { h } from "./dom.js";
import { edited, inPlace } from "./editing.js";
import { elementTable } from "./elements.js";
import { readForm } from "./fault.js";
import { plural } from "./numbers.js";

/** @import { Store } from "./store.js" */

/** Ask what the form's fault would do; the answer is the store's `preview`. Right after Arm that
 * is the fault that was armed, by its own draws, until something else is said in the form.
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
    const { request, problems } = readForm(store, row);
    if (problems.length) return { unread: true };
    const again = armedAs(store, row, request);
    const found = await store.ask("preview", { ...request, ...(again ?? inPlace(store)), row });
    return { ...found, of: again ? "armed" : edited(store) ? "edited" : "next" };
  } catch (error) {
    return { problem: error.message };
  }
}

/** The fault that the form has just armed, where it still says the same.
 * @param {Store} store @param {number} row @param {Record<string, any>} request */
function armedAs(store, row, request) {
  const { justArmed } = store.ui;
  const still = justArmed?.row === row && !edited(store)
    && store.plan.faults.some((each) => each.id === justArmed.fault && each.code === justArmed.code);
  return still && justArmed.request === JSON.stringify(request) ? { fault: justArmed.fault, site: justArmed.site } : null;
}

/** Which fault it is that is previewed, in words. */
const WHOSE = { armed: "as armed", edited: "as changed", next: "not armed yet" };

/** The preview as a table. @param {Store} store */
export function previewTable({ preview, ui }) {
  if (!preview || preview.row !== ui.row || preview.problem || preview.unread) return [];
  const note = preview.note ? h("div.note", null, preview.note) : null;
  if (!preview.elements) return [note];
  const when = preview.step ? `, by the draws of step ${preview.step} on the values of step 0` : "";
  return [note, preview.comes_up ? null : h("div.warning", null, `its probability does not come up in step ${preview.step}`),
    h("div.note", null, `preview of ${preview.fault}, ${WHOSE[preview.of]}: ${plural(preview.changed, "element")} would change${when}`),
    elementTable(preview.elements.slice(0, 4), preview.dtype, "preview")];
}
