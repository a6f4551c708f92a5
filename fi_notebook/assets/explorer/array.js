/** The values of a tensor as a picture of its last two axes. */

import { h } from "./dom.js";
import { number, short } from "./numbers.js";

/** @import { View } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** Colour of a value as red, green, blue and opacity: zero is the page itself.
 * @param {number} value @param {number} most */
function colourOf(value, most) {
  if (Number.isNaN(value)) return [216, 0, 216, 255];
  if (!Number.isFinite(value)) return [255, 200, 0, 255];
  const opacity = Math.round(255 * Math.cbrt(Math.abs(value) / most));
  return value < 0 ? [59, 130, 246, opacity] : [232, 89, 12, opacity];
}

/** The tensor as a picture of its last two axes; a click chooses an element.
 * @param {View} view */
export function arrayView(view, site) {
  const { store } = view;
  const { rows, cols, fixed, shape, origin } = site.values;
  const grid = Float64Array.from(site.values.grid, number);
  const most = grid.reduce((a, b) => (Number.isFinite(b) ? Math.max(a, Math.abs(b)) : a), 0) || 1;
  const canvas = h("canvas.array", { width: cols, height: rows, role: "img", "aria-label": "values of the last two axes" });
  const paint = canvas.getContext("2d");
  const image = paint.createImageData(cols, rows);
  grid.forEach((value, i) => image.data.set(colourOf(value, most), i * 4));
  paint.putImageData(image, 0, 0);
  const hover = h("span.num", null, " ");
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows))),
      Math.min(cols - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * cols)))];
  };
  const full = (place) => (shape.length
    ? [...fixed, place[0] + origin[0], place[1] + origin[1]].slice(-shape.length) : []);
  canvas.addEventListener("mousemove", (event) => {
    const [r, c] = at(event);
    hover.textContent = `[${full([r, c]).join(", ")}]  ${short(grid[r * cols + c])}`;
  });
  canvas.addEventListener("click", (event) => choose(store, full(at(event))));
  const side = Math.max(3, Math.min(22, Math.floor(384 / cols), Math.floor(192 / rows)));
  const [row, col] = [0, 0, ...site.element.index].slice(-2);
  const mark = h("span.mark", { style: `left:${((col - origin[1]) / cols) * 100}%;top:${((row - origin[0]) / rows) * 100}%;width:${100 / cols}%;height:${100 / rows}%` });
  const frame = h("div.frame", { style: `width:${cols * side}px;height:${rows * side}px` }, canvas, mark);
  return h("div.arraybox", null, sliders(store, site), frame,
    h("div.note", null, hover, h("span", null, ` blue −${short(most)} · orange +${short(most)} · NaN magenta · Inf yellow`)));
}

/** Sliders over the axes before the last two. @param {Store} store */
function sliders(store, site) {
  return site.values.fixed.map((value, axis) => h("label.slider", null, `axis ${axis}`,
    h("input", { type: "range", min: 0, max: site.values.shape[axis] - 1, value,
      onchange: (event) => {
        const element = [...store.ui.element];
        element[axis] = Number(event.target.value);
        choose(store, element);
      } }), h("span.num", null, String(value))));
}

/** Choose an element; the form aims at it. @param {Store} store @param {number[]} element */
function choose(store, element) {
  store.ui.element = element;
  store.ui.form.extent = "index";
  store.changed("element");
  store.inspect();
}
