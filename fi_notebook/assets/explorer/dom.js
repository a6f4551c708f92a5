/** Elements of the page; every text is set as text, never as markup. */

import { exact, pairText, short } from "./numbers.js";

/** @import { Store } from "./store.js" */

/** @typedef {{ store: Store, root: any, say: (text: string) => void, live?: any, follow?: () => void, toForm?: () => void }} View */
/** @typedef {(view: View) => { el: HTMLElement, update: (topics: string[]) => void }} MakePane */

/** An element with properties and children; strings become text, never markup.
 * @param {string} tag @param {Record<string, any> | null} [props] @param {...any} children
 * @returns {any} */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.map((each) => `fi-${each}`).join(" ");
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || (value === false && !key.startsWith("aria-"))) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled") /** @type {any} */ (element)[key] = value;
    else element.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** What has the focus inside an element, or null. @param {any} element */
export function focusedIn(element) {
  const active = element.getRootNode().activeElement;
  return active && element.contains(active) ? active : null;
}

/** What tells a control from its siblings, whenever it is drawn. */
function keyOf(control) {
  return control.dataset.key ?? [control.getAttribute("aria-label"), control.closest("label")?.firstChild?.textContent,
    control.tagName === "SELECT" ? "" : control.textContent].join("|");
}

/** Put these children in place of the present ones; what is missing is left out, and a
 * control that has the focus keeps it, with what is selected in it. */
export function fill(element, children) {
  const held = focusedIn(element);
  const key = held && held !== element && keyOf(held);
  const { selectionStart: from, selectionEnd: to, selectionDirection: way } = held ?? {};
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  if (!key) return;
  const again = [...element.querySelectorAll(held.tagName)].find((each) => keyOf(each) === key);
  again?.focus({ preventScroll: true });
  if (again && Number.isInteger(to)) again.setSelectionRange?.(from, to, way);
}

/** A button. @param {() => void} onclick @param {string} [kind] */
export function button(text, onclick, props = {}, kind = "") {
  return h(`button.button${kind ? `.${kind}` : ""}`, { type: "button", onclick, ...props }, text);
}

/** A number in short form, exact on hover. @param {string} [more] @param {string} [text] */
export function figure(value, more = "", text = short(value)) {
  return h("span.num", { title: exact(value) + (more ? ` · ${more}` : "") }, text);
}

/** Two numbers that are to be compared, in enough digits to see where they differ.
 * @param {string} [dtype] */
export function figures(before, after, dtype = "") {
  const [first, second] = pairText(before, after, dtype);
  return [figure(before, "", first), figure(after, "", second)];
}

/** A choice. @param {string} value @param {any[]} options pairs of value and text
 * @param {(value: string) => void} choose */
export function select(value, options, choose, props = {}) {
  const box = h("select.select", { ...props, onchange: () => choose(box.value) },
    options.map(([each, text]) => h("option", { value: each }, text)));
  box.value = value;
  return box;
}

/** A table. @param {string[]} heads @param {string} label */
export function table(heads, rows, label) {
  return h("table.table", { "aria-label": label },
    h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell) => h("td", null, cell))))));
}

/** Put a text on the clipboard. @param {Element} near */
export async function copy(text, near) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { value: text });
    near.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** Short names of phases, beside their colour. @type {Record<string, string>} */
const PHASE_TAGS = {
  forward: "fwd", loss: "loss", backward: "bwd", recompute: "rec", optimizer: "opt", other: "oth",
};

export function phaseTag(phase) {
  return h("span.phase", { "data-phase": phase, title: phase }, PHASE_TAGS[phase] ?? phase);
}

/** A control with its name; what the hint says is told to a screen reader too. @param {string} [hint] */
export function field(text, control, hint = "") {
  if (hint) control.setAttribute("aria-description", hint);
  return h("label.field", { title: hint }, h("span.key", null, text), control);
}

/** A text box that tells its value. @param {(text: string) => void} set */
export function input(value, set, props = {}) {
  return h("input.input", { value: value ?? "", spellcheck: "false", ...props,
    oninput: (event) => set(event.target.value) });
}

/** An id that no other element of the page has: it may hold many widgets. */
export function freshId() {
  return `fi${Math.random().toString(36).slice(2)}`;
}
