/** The bar below the site's card: what would be armed, in words, and the button that arms it. */

import { button, freshId, h } from "./dom.js";
import { edited, leaveFault } from "./editing.js";
import { faultText, readForm, targetText } from "./fault.js";
import { clip } from "./numbers.js";

/** @import { View } from "./dom.js" */

/** The bar, which submits the form of this id. @param {View} view @param {() => void} change goes to
 * the form's fields */
export function armBar(view, change) {
  const { store } = view;
  const form = freshId();
  const words = button("", change, { title: "change the fault" }, "link");
  const problem = h("div.problem", { role: "alert" });
  const button_ = h("button.button.primary", { type: "submit", form }, "Arm");
  const cancel = button("cancel", () => leaveFault(store), {}, "link");
  const el = h("div.armbar", { role: "group", "aria-label": "arm the fault" }, words, cancel, button_, problem);
  let failed = "";
  const update = () => {
    const { row } = store.ui;
    if (row < 0) return;
    const [unread] = readForm(store, row).problems;
    const editing = edited(store);
    const target = targetText(store, row);
    const text = unread?.said || failed || store.preview?.problem || "";
    words.textContent = clip(faultText(store), 200);
    button_.textContent = editing ? `Change ${editing.fault}` : `Arm at ${clip(target, 36)}`;
    button_.title = unread?.said ?? (editing ? `put it back at ${editing.site}` : `arm at ${target}`);
    cancel.hidden = !editing;
    problem.dataset.kind = unread?.missing ? "missing" : "wrong";
    if (problem.textContent !== text) problem.textContent = text;
    button_.disabled = Boolean(store.lost || unread);
  };
  const arm = async () => {
    failed = "";
    button_.disabled = true;
    try {
      view.say(`armed ${await store.arm(store.ui.row)}`);
    } catch (error) {
      failed = error.message;
    }
    update();
  };
  return { el, form, arm, update: () => { failed = ""; update(); } };
}
