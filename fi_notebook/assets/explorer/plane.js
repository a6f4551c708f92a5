/** Which element stands where in the picture of a tensor, and what a stroke over it chooses. */

/**
 * @typedef {{ facet: number, row: number, col: number }} Place
 * @typedef {{ shape: number[], corner: number[], facets: number, rows: number, cols: number, grid: any[] }} Part
 * @typedef {{ facet: number, row: number, col: number, width: number, height: number }} Area
 */

const MOST = 512; // areas that are marked at most

/** Coordinates of the element at a place; null where there is none.
 * @param {Part} part @param {Place} place @returns {number[] | null} */
export function elementAt(part, { facet, row, col }) {
  const { shape, corner, cols } = part;
  const n = shape.length;
  if (n < 2) {
    const at = row * cols + col;
    return at < part.grid.length ? corner.map((first) => first + at) : null;
  }
  const past = [facet, row, col].slice(-n);
  return corner.map((first, axis) => first + (past[axis - n + past.length] ?? 0));
}

/** The place of an element, or null where the picture does not show it.
 * @param {Part} part @param {number[]} index @returns {Place | null} */
export function placeOf(part, index) {
  const { shape, corner, facets, rows, cols } = part;
  const past = index.map((at, axis) => at - corner[axis]);
  if (shape.length < 2) {
    const at = past[0] ?? 0;
    return at >= 0 && at < part.grid.length ? { facet: 0, row: Math.floor(at / cols), col: at % cols } : null;
  }
  const room = [facets, rows, cols];
  const inside = past.every((at, axis) => at >= 0 && at < (room[axis - past.length + 3] ?? 1));
  const [facet, row, col] = [0, ...past].slice(-3);
  return inside ? { facet, row, col } : null;
}

/** How many elements of each axis are shown. @param {Part} part */
export function roomOf({ shape, grid, facets, rows, cols }) {
  if (shape.length < 2) return shape.map(() => grid.length);
  return [...shape.slice(0, -3).fill(1), ...[facets, rows, cols].slice(-shape.length)];
}

/** Position of an element in row-major order. @param {number[]} shape @param {number[]} index */
function flatOf(shape, index) {
  return index.reduce((flat, at, axis) => flat * shape[axis] + at, 0);
}

/** Coordinates of an element by its position. @param {number[]} shape @param {number} flat @returns {number[]} */
export function unflat(shape, flat) {
  const index = [];
  for (let axis = shape.length - 1, rest = flat; axis >= 0; axis -= 1) {
    index.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return index;
}

/** The elements between two places of one plane: a tile, a block, or a run of a vector.
 * @param {Part} part @param {Place} from @param {Place} to @returns {[string, any] | null} */
export function strokeOf(part, from, to) {
  const { shape } = part;
  const [a, b] = [elementAt(part, from), elementAt(part, { ...to, facet: from.facet })];
  if (!a || !b || !shape.length) return null;
  if (shape.length === 1) return ["run", { length: Math.abs(a[0] - b[0]) + 1, start: Math.min(a[0], b[0]) }];
  const at = a.map((x, axis) => Math.min(x, b[axis]));
  const size = a.map((x, axis) => Math.abs(x - b[axis]) + 1).slice(-2);
  return [shape.length === 2 ? "tile" : "block", { shape: size, at }];
}

/** The row that a place lies in: of the tensor as a matrix, or a line of a vector's picture.
 * @param {Part} part @param {Place} place @returns {[string, any] | null} */
export function rowOf(part, place) {
  const { shape, corner, cols } = part;
  if (!shape.length) return null;
  if (shape.length === 1) {
    const start = corner[0] + place.row * cols;
    return ["run", { length: Math.min(cols, shape[0] - start), start }];
  }
  const index = elementAt(part, { ...place, col: 0 });
  return ["row", flatOf(shape.slice(0, -1), index.slice(0, -1))];
}

/** Where an arrow key leads from an element. @param {Part} part @param {number[]} index
 * @param {string} key @returns {number[] | null} */
export function moved(part, index, key) {
  const { shape, cols } = part;
  const n = shape.length;
  const [axis, by] = { ArrowLeft: [n - 1, -1], ArrowRight: [n - 1, 1], ArrowUp: [n - 2, -1], ArrowDown: [n - 2, 1],
    PageUp: [n - 3, -1], PageDown: [n - 3, 1] }[key] ?? [-1, 0];
  const line = n === 1 && axis === -1 && key.startsWith("Arrow");
  if (!by || (axis < 0 && !line)) return null;
  const to = [...index];
  const at = line ? 0 : axis;
  to[at] = Math.max(0, Math.min(shape[at] - 1, to[at] + (line ? by * cols : by)));
  return to;
}

/** Stretches of elements along the last axis that a choice of elements covers; empty where
 * it does not say which. @param {number[]} shape @returns {{ flat: number, width: number }[]} */
function stretches(shape, elements) {
  if (typeof elements !== "object" || !shape.length) return [];
  const last = shape[shape.length - 1];
  const [[name, given]] = Object.entries(elements);
  const lines = ({ shape: size, at }) => Array.from({ length: size[0] }, (_, i) => ({ at, i, width: size[1] }));
  if (name === "index" && Array.isArray(given)) {
    const several = given.length === 0 || Array.isArray(given[0]);
    return (several ? given : [given]).map((index) => ({ flat: flatOf(shape, index), width: 1 }));
  }
  if (name === "row" && given !== "any") return [given].flat().map((row) => ({ flat: row * last, width: last }));
  if (name === "run" && Number.isInteger(given?.start)) return [{ flat: given.start, width: given.length }];
  if (name === "tile" && Array.isArray(given?.at)) return lines(given).map(({ at, i, width }) => ({ flat: (at[0] + i) * last + at[1], width }));
  if (name === "block" && Array.isArray(given?.at) && given.shape.length === 2) {
    const step = (at, i) => at.map((x, axis) => (axis === at.length - 2 ? x + i : x));
    return lines(given).map(({ at, i, width }) => ({ flat: flatOf(shape, step(at, i)), width }));
  }
  return [];
}

/** The areas of the picture that a choice of elements covers. @param {Part} part
 * @returns {Area[]} */
export function areasOf(part, elements) {
  const { shape, corner, cols } = part;
  const line = shape.length === 1 ? cols : shape[shape.length - 1];
  const first = shape.length === 1 ? 0 : corner[corner.length - 1];
  const areas = [];
  for (const { flat, width } of stretches(shape, elements)) {
    for (let at = flat; at < flat + width && areas.length < MOST;) {
      const end = Math.min(flat + width, at - (at % line) + line);
      const from = Math.max(at, at - (at % line) + first);
      const place = from < end && placeOf(part, unflat(shape, from));
      if (place) areas.push({ ...place, width: Math.min(end - from, cols - place.col), height: 1 });
      at = end;
    }
  }
  return joined_(areas);
}

/** Areas below each other as one. @param {Area[]} areas */
function joined_(areas) {
  const joined = [];
  for (const area of areas) {
    const above = joined[joined.length - 1];
    const fits = above && above.facet === area.facet && above.col === area.col && above.width === area.width;
    if (fits && above.row + above.height === area.row) above.height += 1;
    else joined.push({ ...area });
  }
  return joined;
}
