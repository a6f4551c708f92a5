/** The keyboard of the whole widget: its keys stay inside, and it is never lost to the notebook. */

import { focusedIn } from "./dom.js";

/** Hears the keys of a view. @param {any} root */
export function hearKeys(root) {
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave(root, event);
    event.stopPropagation();
    const { target } = event;
    const typing = target.matches("input, select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      root.querySelector(".fi-search")?.focus();
    }
    if (event.key === "ArrowDown" && target.matches(".fi-search")) root.querySelector(".fi-grid")?.focus();
  });
}

/** Escape empties the search, or leaves the widget to the notebook's cell. */
function leave(root, event) {
  const { target } = event;
  if (target.matches(".fi-search") && target.value) return event.stopPropagation();
  target.blur();
  root.parentElement?.closest(".jp-Cell, [tabindex]")?.focus();
}

/** Draws so that the focus stays in the view: on the same control, or where that is gone or
 * disabled, on the view itself until it can be used again.
 * @param {any} root @returns {(work: () => void) => void} */
export function focusKeeper(root) {
  let last = null;
  root.addEventListener("focusin", (event) => { if (event.target !== root) last = event.target; });
  return (work) => {
    const inside = focusedIn(root);
    work();
    if (!inside) return;
    const usable = last?.isConnected && !last.disabled && last.checkVisibility();
    const wanted = usable ? last : root;
    const now = focusedIn(root);
    if (now !== wanted && (!now || now === root || now === last)) wanted.focus({ preventScroll: true });
  };
}
