/** Buttons that a narrow view keeps behind one, and a wide one shows beside the others. */

import { button, freshId, h } from "./dom.js";

/** The buttons, and the one that opens them where they are hidden. @param {any[]} buttons */
export function restOf(buttons) {
  const id = freshId();
  const list = h("div.others", { id, onclick: () => open(false) }, buttons);
  const more = button("…", () => open(!("open" in list.dataset)), { "aria-label": "more", "aria-expanded": "false", "aria-controls": id, title: "more" }, "opener");
  const open = (on) => {
    const inside = list.contains(list.ownerDocument.activeElement);
    list.toggleAttribute("data-open", on);
    more.setAttribute("aria-expanded", String(on));
    if (inside) more.focus(); // hidden where all have room: then the focus stays
  };
  return h("div.rest", {
    onfocusout: (event) => { if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) open(false); },
    onkeydown: (event) => {
      if (event.key !== "Escape" || !("open" in list.dataset)) return;
      event.stopPropagation();
      open(false);
      more.focus();
    },
  }, list, more);
}
