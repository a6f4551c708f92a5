import assert from "node:assert/strict";
import { test } from "node:test";
import { struckAt, signOf } from "../../fi_notebook/assets/explorer/array.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

/** What is marked at the first site, 4 × 8, after so many of its elements were changed. */
function marked(changed, index) {
  const store = new Store(() => {});
  store.trace = trace();
  store.ui.row = 0;
  store.run = { injections: [{ row: 0, changed, elements: index.map((each) => ({ index: each })) }, { row: 1, changed: 1, elements: [{ index: [9, 9] }] }] };
  return struckAt(store);
}

test("the elements that were changed are marked, and how many of them where not all are listed", () => {
  assert.deepEqual(marked(1, [[0, 1]]), { index: [[0, 1]], text: "" });
  assert.deepEqual(marked(5, [[0, 1], [0, 2]]), { index: [[0, 1], [0, 2]], text: "2 of 5 marked that changed" });
});

test("where every element was changed there are words in place of marks", () => {
  assert.deepEqual(marked(32, [[0, 0], [0, 1]]), { index: [], text: "all 32 elements changed" });
});

test("what is not finite has a sign of its own beside its colour", () => {
  assert.deepEqual([NaN, Infinity, -Infinity, 0, -1].map(signOf), ["×", "+", "−", "", ""]);
});
