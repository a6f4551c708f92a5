/** The keyboard of the whole widget: its keys stay inside, and it is never lost to the notebook. */

import { focusedIn } from "./dom.js";

/** Hears the keys of a view. @param {any} root @param {() => void} search goes to the search */
export function hearKeys(root, search) {
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave(root, event);
    event.stopPropagation();
    const { target } = event;
    const typing = target.matches("input, select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search();
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

const CONTROLS = "button, input, select, textarea, summary, [tabindex]";

/** Whether a control can have the focus. */
function usable(control) {
  return control.isConnected && !control.matches(":disabled") && control.checkVisibility();
}

/** Where a control stands: every element above it, the nearest first, and the way down from there.
 * @param {any} control @param {any} root @returns {{ above: any, way: number[] }[]} */
export function placeIn(control, root) {
  const place = [];
  let way = [];
  for (let at = control; at !== root; at = at.parentElement) {
    way = [[...at.parentElement.children].indexOf(at), ...way];
    place.push({ above: at.parentElement, way });
  }
  return place;
}

/** Where a pane is hidden for want of room, what has the focus in the one that is shown. @param {any} root */
function paneInstead(root) {
  const pane = root.querySelector(`.fi-pane.fi-${root.dataset.pane}`);
  return pane.querySelector(':scope > [role="tablist"] > [aria-selected="true"]') ?? pane;
}

const GROUPS = '[role="group"], [role="toolbar"], form, section, .fi-explorer';

/** What has taken the place of a control: the same control drawn anew, or that of the next or the
 * previous item of a list; else the group around it, where no key does anything; else, where another
 * pane is shown instead, that pane: of the result its tab.
 * @param {{ above: any, way: number[] }[]} place */
export function successor(place) {
  const { above, way: [at, ...inside] } = place.find((each) => each.above.isConnected);
  const items = [above.children[at], ...(inside.length ? [above.children[at - 1]] : [])];
  const controls = items.map((item) => inside.reduce((each, n) => each?.children[n], item));
  const found = controls.find((each) => each?.matches(CONTROLS) && each.tabIndex >= 0 && usable(each));
  if (found) return found;
  const around = above.closest(GROUPS);
  const group = around.checkVisibility() ? around : paneInstead(around.closest(".fi-explorer"));
  if (!group.matches(CONTROLS)) group.tabIndex = -1;
  return group;
}

/** Draws so that the focus stays in the view: on the same control, or where that is gone or
 * disabled, on what has taken its place, and on nothing that would do something else. What is disabled for a while has it back after, unless a
 * person has gone on meanwhile. @param {any} root @returns {(work: () => void) => void} */
export function focusKeeper(root) {
  let awaited = null;
  let instead = null;
  const goOn = (event) => { if (!event.repeat && event.target !== (event.type === "focusin" ? instead : null)) awaited = null; };
  for (const each of ["keydown", "pointerdown", "focusin"]) root.addEventListener(each, goOn, true);
  return (work) => {
    const held = focusedIn(root);
    const place = held ? placeIn(held, root) : [];
    work();
    if (!held) return;
    const now = focusedIn(root);
    if (awaited && usable(awaited)) return awaited.focus({ preventScroll: true });
    if (held === root || (now && now !== root && usable(now))) return;
    instead = successor(place);
    if (held.isConnected && held.disabled) awaited = held;
    instead.focus({ preventScroll: true });
  };
}

/** The arrow keys in a row of tabs: the next one has the focus and is chosen.
 * @param {any} event @param {(tab: any) => void} choose */
export function tabKey(event, choose) {
  const tabs = [...event.currentTarget.children];
  const at = tabs.indexOf(event.target);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const tab = tabs.at(to % tabs.length);
  tab.focus();
  choose(tab);
}
