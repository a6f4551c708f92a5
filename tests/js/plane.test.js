import assert from "node:assert/strict";
import { test } from "node:test";
import { areasOf, elementAt, moved, placeOf, roomOf, rowOf, strokeOf } from "../../fi_notebook/assets/explorer/plane.js";

/** A window without values. */
function part(shape, corner, [facets, rows, cols], size = facets * rows * cols) {
  return { shape, corner, facets, rows, cols, grid: new Array(size).fill(0) };
}

/** Eight planes of 4 × 4 of [6, 8, 4, 4] at batch 3; rows 100 to 163 of a matrix; a vector over three lines. */
const PARTS = {
  planes: part([6, 8, 4, 4], [3, 0, 0, 0], [8, 4, 4]),
  matrix: part([500, 96], [100, 0], [1, 64, 96]),
  cube: part([5, 2, 3], [1, 0, 0], [4, 2, 3]),
  vector: part([70], [0], [1, 3, 32], 70),
  late: part([5000], [64], [1, 64, 32]),
  scalar: part([], [], [1, 1, 1]),
};

for (const [name, shown] of Object.entries(PARTS)) {
  test(`every place of the ${name} holds one element, and the element its place`, () => {
    for (let facet = 0; facet < shown.facets; facet += 1) {
      for (let row = 0; row < shown.rows; row += 1) {
        for (let col = 0; col < shown.cols; col += 1) {
          const index = elementAt(shown, { facet, row, col });
          if (index) assert.deepEqual(placeOf(shown, index), { facet, row, col });
        }
      }
    }
  });
}

test("a place beyond the end of a vector holds no element", () => {
  assert.equal(elementAt(PARTS.vector, { facet: 0, row: 2, col: 6 }), null, "64 + 6 is the 71st");
  assert.deepEqual(elementAt(PARTS.vector, { facet: 0, row: 2, col: 5 }), [69]);
});

test("an element outside the window has no place", () => {
  assert.equal(placeOf(PARTS.planes, [2, 0, 0, 0]), null);
  assert.equal(placeOf(PARTS.matrix, [99, 0]), null);
  assert.equal(placeOf(PARTS.late, [63]), null);
});

test("a drag is a tile of a matrix, a block of more axes, a run of a vector", () => {
  const drag = (shown, a, b) => strokeOf(shown, { facet: 2, row: a[0], col: a[1] }, { facet: 5, row: b[0], col: b[1] });
  assert.deepEqual(drag(PARTS.planes, [2, 3], [0, 1]), ["block", { shape: [3, 3], at: [3, 2, 0, 1] }], "in the plane where it began");
  const flat = (shown, a, b) => strokeOf(shown, { facet: 0, row: a[0], col: a[1] }, { facet: 0, row: b[0], col: b[1] });
  assert.deepEqual(flat(PARTS.matrix, [1, 2], [4, 9]), ["tile", { shape: [4, 8], at: [101, 2] }]);
  assert.deepEqual(flat(PARTS.vector, [1, 0], [0, 30]), ["run", { length: 3, start: 30 }], "elements 30, 31, 32");
  assert.equal(flat(PARTS.scalar, [0, 0], [0, 0]), null);
});

test("a row is that of the tensor as a matrix", () => {
  assert.deepEqual(rowOf(PARTS.planes, { facet: 2, row: 1, col: 3 }), ["row", (3 * 8 + 2) * 4 + 1]);
  assert.deepEqual(rowOf(PARTS.matrix, { facet: 0, row: 1, col: 3 }), ["row", 101]);
  assert.deepEqual(rowOf(PARTS.vector, { facet: 0, row: 2, col: 3 }), ["run", { length: 6, start: 64 }]);
});

test("what is chosen is marked where it is shown, as few areas as can be", () => {
  const { planes, matrix, vector } = PARTS;
  assert.deepEqual(areasOf(planes, { index: [3, 2, 1, 0] }), [{ facet: 2, row: 1, col: 0, width: 1, height: 1 }]);
  assert.deepEqual(areasOf(planes, { index: [[3, 0, 0, 0], [0, 0, 0, 0]] }).length, 1, "the other batch is not shown");
  assert.deepEqual(areasOf(planes, { block: { shape: [3, 3], at: [3, 2, 0, 1] } }), [{ facet: 2, row: 0, col: 1, width: 3, height: 3 }]);
  assert.deepEqual(areasOf(planes, { row: (3 * 8 + 2) * 4 + 1 }), [{ facet: 2, row: 1, col: 0, width: 4, height: 1 }]);
  assert.deepEqual(areasOf(matrix, { tile: { shape: [8, 4], at: [97, 2] } }), [{ facet: 0, row: 0, col: 2, width: 4, height: 5 }], "rows 97 to 99 lie above");
  assert.deepEqual(areasOf(vector, { run: { length: 3, start: 30 } }),
    [{ facet: 0, row: 0, col: 30, width: 2, height: 1 }, { facet: 0, row: 1, col: 0, width: 1, height: 1 }]);
});

test("what is drawn, or everything, marks nothing", () => {
  for (const elements of ["all", "nonzero", { count: 5 }, { tile: [4, 4] }, { row: "any" }, { run: 16 }, { index: [] }]) {
    assert.deepEqual(areasOf(PARTS.planes, elements), []);
  }
});

test("a wide row is clipped to the window", () => {
  const shown = part([10, 500], [0, 100], [1, 10, 96]);
  assert.deepEqual(areasOf(shown, { row: 3 }), [{ facet: 0, row: 3, col: 0, width: 96, height: 1 }]);
  assert.deepEqual(areasOf(shown, { tile: { shape: [1, 20], at: [2, 90] } }), [{ facet: 0, row: 2, col: 0, width: 10, height: 1 }]);
});

test("arrow keys move along the last axes, Page keys along the one before, and stay inside", () => {
  const { planes, vector, scalar } = PARTS;
  assert.deepEqual(moved(planes, [3, 2, 1, 0], "ArrowLeft"), [3, 2, 1, 0]);
  assert.deepEqual(moved(planes, [3, 2, 1, 0], "ArrowDown"), [3, 2, 2, 0]);
  assert.deepEqual(moved(planes, [3, 2, 1, 0], "PageDown"), [3, 3, 1, 0]);
  assert.deepEqual(moved(vector, [40], "ArrowDown"), [69], "72 is beyond the end");
  assert.deepEqual(moved(vector, [40], "ArrowUp"), [8]);
  assert.equal(moved(vector, [40], "PageUp"), null);
  assert.equal(moved(scalar, [], "ArrowUp"), null);
  assert.equal(moved(planes, [0, 0, 0, 0], "a"), null);
});

test("the room of a window is what a slider need not reach", () => {
  assert.deepEqual(roomOf(PARTS.planes), [1, 8, 4, 4]);
  assert.deepEqual(roomOf(PARTS.cube), [4, 2, 3]);
  assert.deepEqual(roomOf(PARTS.vector), [70]);
  assert.deepEqual(roomOf(PARTS.scalar), []);
});
