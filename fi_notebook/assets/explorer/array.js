/** The values of a tensor as pictures of its last two axes, in which elements are chosen. */

import { aim, choose, turnTo } from "./aiming.js";
import { h } from "./dom.js";
import { extentIfRead } from "./fault.js";
import { count, number, pairText, short } from "./numbers.js";
import { areasOf, elementAt, moved, placeOf, roomOf, rowOf, strokeOf } from "./plane.js";

/** @import { View } from "./dom.js" */
/** @import { Area, Part, Place } from "./plane.js" */
/** @import { Store } from "./store.js" */

const WIDE = 430; // pixels that the pictures may take, in either direction
const HIGH = 150;

/** Colour of a value as red, green, blue and opacity: zero is the page itself.
 * @param {number} value @param {number} most */
function colourOf(value, most) {
  if (Number.isNaN(value)) return [216, 0, 216, 255];
  if (!Number.isFinite(value)) return [255, 200, 0, 255];
  const opacity = Math.round(255 * Math.cbrt(Math.abs(value) / most));
  return value < 0 ? [59, 130, 246, opacity] : [232, 89, 12, opacity];
}

/** What tells a value that is not finite where its colour does not; "" of a finite one.
 * @param {number} value */
export function signOf(value) {
  if (Number.isNaN(value)) return "×";
  return Number.isFinite(value) ? "" : value > 0 ? "+" : "−";
}

/** How a sign is drawn, as lines within a cell of side 1. @type {Record<string, number[][]>} */
const STROKES = {
  "×": [[0.25, 0.25, 0.75, 0.75], [0.25, 0.75, 0.75, 0.25]],
  "+": [[0.2, 0.5, 0.8, 0.5], [0.5, 0.2, 0.5, 0.8]],
  "−": [[0.2, 0.5, 0.8, 0.5]],
};

/** The signs of the values that are not finite, over a plane; null where there is none.
 * @param {Part} part @param {Float64Array} values of the plane @param {number} side */
function signs({ rows, cols }, values, side) {
  if (values.every(Number.isFinite)) return null;
  const canvas = h("canvas.signs", { width: cols * side, height: rows * side });
  const pen = canvas.getContext("2d");
  pen.lineWidth = Math.max(1, side / 9);
  values.forEach((value, at) => {
    const [left, top] = [(at % cols) * side, Math.floor(at / cols) * side];
    pen.strokeStyle = Number.isNaN(value) ? "#fff" : "#000";
    pen.beginPath();
    for (const [a, b, c, d] of STROKES[signOf(value)] ?? []) {
      pen.moveTo(left + a * side, top + b * side);
      pen.lineTo(left + c * side, top + d * side);
    }
    pen.stroke();
  });
  return canvas;
}

/** Side of a cell, so that all pictures fit. @param {Part} part */
function sideOf({ facets, rows, cols }) {
  for (let side = 22; side > 3; side -= 1) {
    const across = Math.max(1, Math.floor(WIDE / (cols * side + 14)));
    if (cols * side <= WIDE && Math.ceil(facets / across) * (rows * side + 20) <= HIGH) return side;
  }
  return 3;
}

/** Sliders, pictures, and what the colours mean.
 * @param {View} view @param {{ values: Part }} site */
export function arrayView(view, site) {
  const part = site.values;
  const grid = Float64Array.from(part.grid, number);
  const most = grid.reduce((a, b) => (Number.isFinite(b) ? Math.max(a, Math.abs(b)) : a), 0) || 1;
  const side = sideOf(part);
  const hover = h("span.num.hover", null, " ");
  const facets = Array.from({ length: part.facets }, (_, facet) => picture(part, grid, most, facet, side));
  const box = h("div.array", {
    role: "application", tabindex: 0, "data-key": "array", "aria-roledescription": "picture of values",
    "aria-label": "values; arrow keys choose an element, with Shift a tile, R takes the row, Page keys go to the next plane",
    onkeydown: (event) => arrayKey(view, part, grid, event),
  }, facets);
  hearStrokes(view, part, box, (place) => {
    const index = place && elementAt(part, place);
    hover.textContent = index ? `[${index.join(", ")}]  ${valueAt(view.store, grid, gridAt(part, place))}` : " ";
  });
  box.fiPart = part;
  box.fiNote = h("span.note");
  markArray(view.store, box, part);
  return h("div.arraybox", null, sliders(view.store, part), box, h("div.legend", null,
    part.facets > 1 ? h("span", null, `planes along axis ${part.shape.length - 3}`) : null,
    grid.some(Number.isFinite) ? [h("span.num", null, `−${short(most)}`), h("span.scale", { "aria-hidden": "true" }), h("span.num", null, `+${short(most)}`)] : null,
    [NaN, Infinity, -Infinity].filter((value) => grid.some((x) => Object.is(x, value))).map((value) =>
      h("span.swatch", { "data-sign": signOf(value), "data-kind": Number.isNaN(value) ? "nan" : "inf" }, value > 0 ? "+Inf" : short(value))), box.fiNote, hover));
}

/** @param {Part} part @param {Place} place */
function gridAt({ rows, cols }, { facet, row, col }) {
  return (facet * rows + row) * cols + col;
}

/** A value of the picture as text. @param {Store} store @param {Float64Array} grid */
function valueAt(store, grid, at) {
  return pairText(grid[at], grid[at], store.dtypeOf(store.ui.row))[0];
}

/** One plane, with a strip at its left that takes whole rows.
 * @param {Part} part @param {Float64Array} grid @param {number} most @param {number} facet @param {number} side */
function picture(part, grid, most, facet, side) {
  const { rows, cols } = part;
  const canvas = h("canvas.plane", { width: cols, height: rows });
  const paint = canvas.getContext("2d");
  const image = paint.createImageData(cols, rows);
  const size = rows * cols;
  const values = grid.subarray(facet * size, (facet + 1) * size);
  values.forEach((value, i) => image.data.set(colourOf(value, most), i * 4));
  paint.putImageData(image, 0, 0);
  const index = elementAt(part, { facet, row: 0, col: 0 });
  return h("figure.facet", null,
    index.length > 2 ? h("figcaption", { title: `[${index.slice(0, -2).join(", ")}]` }, String(index.at(-3))) : null,
    h("div.frame", { "data-facet": facet, style: `width:${cols * side}px;height:${rows * side}px;--fi-ring:${side < 12 ? 1 : 2}px` },
      canvas, h("div.marks"), h("div.rowpick", { title: "take a whole row" }), signs(part, values, side)));
}

/** Mark what the form aims at, what the preview would change, and what the last replay struck.
 * @param {Store} store @param {any} box @param {Part} part */
export function markArray(store, box, part) {
  const frames = [...box.querySelectorAll(".fi-frame")];
  for (const frame of frames) frame.children[1].replaceChildren();
  const put = (areas, kind) => areas.forEach((area) => frames[area.facet].children[1].append(markOf(part, area, kind)));
  const struck = struckAt(store);
  put(areasOf(part, { index: struck.index }), "struck");
  const extent = extentIfRead(store);
  const aimed = extent ? areasOf(part, extent) : [];
  put(aimed, "aimed");
  const drawn = aimed.length ? NOTHING : marksOf([drawnBy(store)], store.shapeOf(store.ui.row), "would change");
  put(areasOf(part, { index: drawn.index }), "drawn");
  box.fiNote.textContent = [struck.text, drawn.text].filter(Boolean).join("; ");
}

const NOTHING = { index: /** @type {number[][]} */ ([]), text: "" };

/** What the last replay struck at the chosen site. @param {Store} store */
export function struckAt({ run, ui, trace }) {
  const here = (run?.injections ?? []).filter((each) => each.row === ui.row);
  return here.length ? marksOf(here, trace.data.shapes[trace.columns.shape[ui.row]], "changed") : NOTHING;
}

/** Which elements are marked: those that are listed, and none where all of them are meant, since
 * marks would hide the values; the text says what the marks do not.
 * @param {{ elements: any[], changed: number }[]} lists @param {number[]} shape @param {string} what */
function marksOf(lists, shape, what) {
  const size = shape.reduce((a, b) => a * b, 1);
  if (size > 1 && lists.some(({ changed }) => changed === size)) return { index: [], text: `all ${count(size)} elements ${what}` };
  const index = lists.flatMap(({ elements }) => elements.map((each) => each.index));
  const changed = lists.reduce((sum, each) => sum + each.changed, 0);
  return { index, text: changed > index.length ? `${count(index.length)} of ${count(changed)} marked that ${what}` : "" };
}

/** The elements that the form's fault would change, as the preview has them. @param {Store} store */
function drawnBy({ preview, ui }) {
  const known = preview?.row === ui.row && preview.elements;
  return known ? { elements: known, changed: preview.changed } : { elements: [], changed: 0 };
}

/** Show the first element that is drawn, unless a person has chosen what to look at, or the
 * last replay struck here: then the picture shows that.
 * @param {Store} store @param {Part} part */
export function followDraw(store, part) {
  const [drawn] = drawnBy(store).elements;
  const struck = store.run?.injections.some((each) => each.row === store.ui.row);
  if (!drawn || struck || store.ui.element || store.ui.turned || placeOf(part, drawn.index)) return;
  const room = roomOf(part);
  store.ui.corner = drawn.index.map((at, axis) => Math.max(0, at - Math.floor(room[axis] / 2)));
  store.inspect();
}

/** @param {Part} part @param {Area} area @param {string} kind */
function markOf({ rows, cols }, { row, col, width, height }, kind) {
  const share = (n, of) => `${(100 * n) / of}%`;
  return h("span.mark", { "data-kind": kind,
    style: `left:${share(col, cols)};top:${share(row, rows)};width:${share(width, cols)};height:${share(height, rows)}` });
}

/** A click chooses an element, a drag a tile, a click at the left edge a row; Shift extends.
 * @param {View} view @param {Part} part @param {any} box @param {(place: Place | null) => void} hovered */
function hearStrokes(view, part, box, hovered) {
  const { store } = view;
  let from = null;
  const at = (event) => {
    const frame = event.target.closest?.(".fi-frame");
    if (!frame) return null;
    const { left, top, width, height } = frame.firstChild.getBoundingClientRect();
    const cell = (past, length, n) => Math.max(0, Math.min(n - 1, Math.floor((past / length) * n)));
    return { facet: Number(frame.dataset.facet), row: cell(event.clientY - top, height, part.rows),
      col: cell(event.clientX - left, width, part.cols), whole: event.target.matches(".fi-rowpick") };
  };
  box.addEventListener("pointerdown", (event) => {
    from = event.button ? null : at(event);
    if (from) event.target.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const place = at(event);
    hovered(place);
    if (!from || !place) return;
    const chosen = place.row === from.row && place.col === from.col ? null : strokeOf(part, from, place);
    if (chosen) aim(store, chosen);
  });
  box.addEventListener("pointerleave", () => hovered(null));
  box.addEventListener("pointerup", (event) => {
    const place = at(event);
    const start = from;
    from = null;
    if (!start || !place) return;
    const anchor = event.shiftKey && store.ui.anchor && placeOf(part, store.ui.anchor);
    if (start.whole) aim(store, rowOf(part, start));
    else if (anchor) aim(store, strokeOf(part, anchor, place));
    else if (place.row === start.row && place.col === start.col) chooseAt(view, part, place);
    else aim(store, strokeOf(part, start, place));
  });
}

/** Choose by mouse; the bits of the element are to be seen. @param {View} view @param {Part} part @param {Place} place */
function chooseAt(view, part, place) {
  const index = elementAt(part, place);
  if (!index) return;
  view.store.ui.showBits = true;
  choose(view.store, index);
}

/** @param {View} view @param {Part} part @param {KeyboardEvent} event */
function arrayKey(view, part, grid, event) {
  const { store } = view;
  const now = store.ui.cursor ?? store.ui.element ?? elementAt(part, { facet: 0, row: 0, col: 0 });
  const place = placeOf(part, now);
  if (event.key.toLowerCase() === "r" && place) {
    aim(store, rowOf(part, place));
    view.say(`row of [${now.join(", ")}]`);
    return event.preventDefault();
  }
  const to = store.ui.element ? moved(part, now, event.key) : event.key.startsWith("Arrow") ? now : null;
  if (!to) return;
  event.preventDefault();
  const there = placeOf(part, to);
  const anchor = event.shiftKey && store.ui.anchor && placeOf(part, store.ui.anchor);
  if (anchor && there) {
    store.ui.cursor = to;
    aim(store, strokeOf(part, anchor, there));
  } else {
    store.ui.cursor = null;
    choose(store, to);
  }
  view.say(`[${to.join(", ")}] ${there ? valueAt(view.store, grid, gridAt(part, there)) : ""}`);
}

/** One slider for each axis that is not shown whole. @param {Store} store @param {Part} part */
function sliders(store, part) {
  const { shape, corner } = part;
  const room = roomOf(part);
  return shape.map((size, axis) => {
    if (size <= room[axis]) return null;
    const from = corner[axis];
    const shown = room[axis] > 1 ? `indices ${from}–${from + room[axis] - 1}` : `index ${from}`;
    const turned = (event) => turnTo(store, corner.map((first, each) => (each === axis ? Number(event.target.value) : first)));
    return h("label.slider", null, `axis ${axis}`, h("input", { type: "range", min: 0, max: size - room[axis], value: corner[axis],
      "aria-label": `axis ${axis}`, onchange: turned }), h("span.num", null, `${shown} (0–${size - 1})`));
  });
}
