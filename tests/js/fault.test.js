import assert from "node:assert/strict";
import { test } from "node:test";
import { faultText, requestOf } from "../../fi_notebook/assets/explorer/fault.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

/** A store whose form describes a fault at `mm*2:0`. */
function described(form, element = null) {
  const store = new Store(() => {});
  store.trace = trace();
  store.ui.row = 2;
  store.ui.element = element;
  Object.assign(store.ui.form, form);
  return store;
}

test("the form begins with one element, drawn by the seed", () => {
  const store = described({});
  assert.deepEqual(requestOf(store, 2), {
    site: "mm*2:0", model: "bitflip", parameters: {}, elements: { count: 1 }, steps: "0", seed: 0,
  });
  assert.equal(faultText(store), "bitflip on 1 drawn element, step 0");
});

test("one element must have been chosen", () => {
  assert.throws(() => requestOf(described({ extent: "index" }), 2), /no element is chosen: click one/);
  const store = described({ extent: "index", parameters: { bit: 30 } }, [0, 3]);
  assert.deepEqual(requestOf(store, 2).elements, { index: [0, 3] });
  assert.equal(faultText(store), "bitflip(bit=30) on element [0, 3], step 0");
});

test("what is left empty is not sent; ranks, micro batches and the rest are", () => {
  const full = { probability: "0.5", times: "3", scope: "storage", ranks: "1-3", micro_batches: " 0 ", steps: " 2,5- " };
  const { probability, times, scope, ranks, micro_batches, steps } = requestOf(described(full), 2);
  assert.deepEqual([probability, times, scope, ranks, micro_batches, steps], [0.5, 3, "storage", "1-3", "0", "2,5-"]);
  assert.match(faultText(described(full)), /step 2,5-, probability 0.5, rank 1-3$/);
});

test("every call is the operator's name alone", () => {
  assert.equal(requestOf(described({ calls: "every" }), 2).site, "mm");
  assert.match(faultText(described({ calls: "every" })), /drawn element, every call, step 0$/);
});

test("regions are told in words", () => {
  const text = (extent, given) => faultText(described({ extent, extentText: JSON.stringify(given) })).split(" on ")[1];
  assert.equal(text("block", { shape: [3, 3], at: [0, 2, 0, 0] }), "block of 3 × 3 at [0, 2, 0, 0], step 0");
  assert.equal(text("run", { length: 16, start: 4 }), "run of 16 from 4, step 0");
  assert.equal(text("row", 3), "row 3, step 0");
});
