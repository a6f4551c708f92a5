import assert from "node:assert/strict";
import { test } from "node:test";
import { requestOf } from "../../fi_notebook/assets/explorer/fault.js";
import { inPlaceOf, standingAt } from "../../fi_notebook/assets/explorer/standing.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

const F1 = {
  id: "f1", target: "mm*2:0", model: "bitflip", parameters: { bit: 14 }, elements: { index: [1] }, steps: "0", seed: 0,
  scope: "value", probability: 1, times: null, micro_batches: null, ranks: null, filters: {}, enabled: true, rows: [2],
};

/** A store at `mm*2:0`, a tensor of two, whose form says bit 14 of element 1. */
function at(faults, form = {}) {
  const store = new Store(() => {});
  store.trace = trace();
  store.hello = { models: [{ name: "bitflip", parameters: [{ name: "bit", type: "ints", choices: [] }] }] };
  store.plan = { faults };
  Object.assign(store.ui, { row: 2, element: [1], elementText: null });
  Object.assign(store.ui.form, { model: "bitflip", parameters: { bit: "14" }, extent: "index", ...form });
  return store;
}

test("the very same request is armed already, however its element is written", () => {
  for (const index of [[1], 1, [-1], -1]) {
    assert.deepEqual(standingAt(at([{ ...F1, elements: { index } }]), 2), { kind: "armed", fault: "f1", site: "mm*2:0" });
  }
});

test("another bit changes the last fault that can be edited here", () => {
  const f2 = { ...F1, id: "f2", parameters: { bit: 3 } };
  const several = { ...F1, id: "f3", elements: { index: [[0], [1]] } };
  const standing = standingAt(at([F1, f2, several], { parameters: { bit: "5" } }), 2);
  assert.deepEqual(standing, { kind: "change", fault: "f2", site: "mm*2:0" });
  assert.deepEqual(inPlaceOf(standing), { fault: "f2", site: "mm*2:0" });
  assert.deepEqual(inPlaceOf({ kind: "arm" }), {});
});

test("what is off, filtered or armed elsewhere is not the same fault", () => {
  const kind = (fault) => standingAt(at([{ ...F1, ...fault }]), 2).kind;
  assert.equal(kind({ enabled: false }), "arm");
  assert.equal(kind({ rows: [0] }), "arm");
  assert.equal(kind({ target: "mm", rows: [0, 2] }), "arm"); // every call, and the form says this one
  assert.equal(kind({ filters: { phases: ["forward"] } }), "change");
});

test("every call is compared with every call", () => {
  const all = { ...F1, target: "mm", rows: [0, 2], elements: "all" };
  const every = { calls: "every", extent: "all" };
  assert.deepEqual(standingAt(at([all], every), 2), { kind: "armed", fault: "f1", site: "mm" });
  assert.equal(standingAt(at([all], { ...every, steps: "0-" }), 2).kind, "change");
  assert.equal(standingAt(at([F1], every), 2).kind, "arm");
});

test("what was just armed is the same in any spelling", () => {
  const store = at([{ ...F1, code: "line", steps: "2,5-7" }], { steps: "5-7, 2" });
  assert.equal(standingAt(store, 2).kind, "change");
  store.ui.justArmed = { fault: "f1", code: "line", request: JSON.stringify(requestOf(store, 2)) };
  assert.equal(standingAt(store, 2).kind, "armed");
});

test("what cannot be read is nowhere armed; the edited fault is the one that is changed", () => {
  assert.equal(standingAt(at([F1], { seed: "x" }), 2).kind, "change");
  const store = at([F1, { ...F1, id: "f2" }]);
  store.ui.editing = { row: 2, fault: "f1", site: "mm*2:0", kept: null };
  assert.deepEqual(standingAt(store, 2), { kind: "change", fault: "f1", site: "mm*2:0" });
});
