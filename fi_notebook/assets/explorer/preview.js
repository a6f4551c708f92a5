/** What a fault would do to the recorded values; nothing runs. */

import { h } from "./dom.js";
import { elementTable } from "./elements.js";
import { readForm } from "./fault.js";
import { plural } from "./numbers.js";
import { inPlaceOf, standingAt } from "./standing.js";

/** @import { Store } from "./store.js" */

/** Ask what the form's fault would do; the answer is the store's `preview`. It is of the fault
 * that Arm would make, or that is armed already, by its own draws.
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

/** The answer for what the form says now; `asked` is what it is an answer to.
 * @param {Store} store @param {number} row */
async function previewed(store, row) {
  const { request, problems } = readForm(store, row);
  if (problems.length) return { unread: true };
  const asked = JSON.stringify(request);
  const standing = standingAt(store, row);
  try {
    const found = await store.ask("preview", { ...request, ...inPlaceOf(standing), row });
    return { ...found, asked, of: standing.kind };
  } catch (error) {
    return { asked, problem: error.message };
  }
}

/** Which fault it is that is previewed, in words. */
const WHOSE = { armed: "as armed", change: "as changed", arm: "not armed yet" };

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
