/** A small curve over the calls of an operator, with one of them marked. */

const STRETCHES = 200; // pairs of points that are drawn

/** The points of a curve by their number: all, or of each stretch the lowest and the highest.
 * @param {ArrayLike<number>} values @param {number} [most] @returns {number[]} */
export function curveOf(values, most = STRETCHES) {
  const all = Array.from(values, (_, n) => n);
  if (all.length <= 2 * most) return all;
  const ends = Array.from({ length: most + 1 }, (_, n) => Math.round((n * all.length) / most));
  return ends.slice(1).flatMap((end, n) => {
    const stretch = all.slice(ends[n], end);
    const by = (better) => stretch.reduce((best, at) => (!(better(values[best], values[at])) ? best : at));
    return [...new Set([by((a, b) => b < a), by((a, b) => b > a)])].sort((a, b) => a - b);
  });
}

/** Where a call stands on the curve, from 0 to 1. @param {number} at @param {number} calls */
export function shareOf(at, calls) {
  return calls < 2 ? 0.5 : at / (calls - 1);
}

/** A shape of a small picture. @param {string} tag @param {Record<string, any>} props @param {...any} children */
function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** A curve over all calls with one marked. @param {ArrayLike<number>} values @param {number} marked */
export function sparkline(values, marked) {
  const drawn = curveOf(values);
  const finite = drawn.map((at) => values[at]).filter(Number.isFinite);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const x = (at) => shareOf(at, values.length) * 96 + 2;
  const y = (v) => (Number.isFinite(v) ? 18 - ((v - low) / span) * 14 : 2);
  const points = drawn.map((at) => `${x(at).toFixed(1)},${y(values[at]).toFixed(1)}`).join(" ");
  return svg("svg", { class: "fi-spark", viewBox: "0 0 100 20", "aria-hidden": "true" },
    svg("polyline", { points }), svg("circle", { cx: x(marked), cy: y(values[marked]), r: 2.5 }));
}
