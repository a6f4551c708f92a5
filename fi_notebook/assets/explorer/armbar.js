/** The bar below the site's card: what would be armed, in words, and the button that arms it. */

import { button, freshId, h } from "./dom.js";
import { edited, leaveFault } from "./editing.js";
import { faultText, readForm, targetText } from "./fault.js";
import { clip } from "./numbers.js";
import { inPlaceOf, standingAt } from "./standing.js";

/** @import { View } from "./dom.js" */
/** @import { Standing } from "./standing.js" */

/** The bar, which submits the form of this id. @param {View} view @param {() => void} change goes to
 * the form's fields */
export function armBar(view, change) {
  const { store } = view;
  const form = freshId();
  const words = button("", change, { title: "change the fault" }, "link");
  const problem = h("div.problem", { role: "alert" });
  const button_ = h("button.button.primary", { type: "submit", form }, "Arm");
  const another = button("Arm another", () => arm({ kind: "arm" }));
  const cancel = button("cancel", () => leaveFault(store), {}, "link");
  const el = h("div.armbar", { role: "group", "aria-label": "arm the fault" }, words, h("div.arms", null, cancel, another, button_), problem);
  let failed = "";
  const update = () => {
    const { row } = store.ui;
    if (row < 0) return;
    const { request, problems: [unread] } = readForm(store, row);
    const standing = standingAt(store, row);
    const refused = store.preview?.problem ?? "";
    const text = unread?.said || failed || refused;
    words.textContent = clip(faultText(store), 200);
    [button_.textContent, button_.title] = buttonWords(standing, targetText(store, row));
    another.title = `arm one more fault at ${targetText(store, row)}`;
    another.hidden = standing.kind !== "change" || Boolean(edited(store));
    cancel.hidden = !edited(store);
    problem.dataset.kind = unread?.missing ? "missing" : "wrong";
    if (problem.textContent !== text) problem.textContent = text;
    another.disabled = Boolean(store.lost || unread || store.pending.has(row)
      || (refused && store.preview.asked === JSON.stringify(request)));
    button_.disabled = another.disabled || standing.kind === "armed";
  };
  /** @param {Standing} standing */
  const arm = async (standing) => {
    if (standing.kind === "armed") return;
    failed = "";
    button_.disabled = another.disabled = true;
    try {
      const fault = await store.arm(store.ui.row, inPlaceOf(standing));
      view.say(`${standing.kind === "change" ? "changed" : "armed"} ${fault}`);
    } catch (error) {
      failed = error.message;
    }
    update();
  };
  return { el, form, arm: () => arm(standingAt(store, store.ui.row)), update: () => { failed = ""; update(); } };
}

/** What stands on the button, and its hint. @param {Standing} standing @param {string} target */
function buttonWords({ kind, fault, site }, target) {
  if (kind === "armed") return [`Armed as ${fault}`, `this very fault is armed at ${site}; change it to arm another`];
  if (kind === "change") return [`Change ${fault}`, `put it in the place of ${fault} at ${site}`];
  return [`Arm at ${clip(target, 36)}`, `arm at ${target}`];
}
