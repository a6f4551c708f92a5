import assert from "node:assert/strict";
import { test } from "node:test";
import { elementOf, formOf } from "../../fi_notebook/assets/explorer/editing.js";

const FAULT = {
  id: "f1", target: "relu*2:0", model: "bitflip", parameters: { bit: 30 }, elements: { index: [0, 3] },
  steps: "0,2-3", seed: 4, scope: "value", probability: 1, times: null, micro_batches: null, ranks: "0-1",
};

test("the form of a fault says the fault again", () => {
  assert.deepEqual(formOf(FAULT), {
    model: "bitflip", parameters: { bit: 30 }, extent: "index", extentText: "[0,3]", steps: "0,2-3",
    seed: "4", times: "", probability: "", scope: "", ranks: "0-1", micro_batches: "",
  });
  const rare = formOf({ ...FAULT, elements: "all", scope: "storage", probability: 0.5, times: 2 });
  assert.deepEqual([rare.extent, rare.extentText, rare.scope, rare.probability, rare.times], ["all", "", "storage", "0.5", "2"]);
});

test("a form of its own: what is typed does not change the armed fault", () => {
  formOf(FAULT).parameters.bit = 1;
  assert.equal(FAULT.parameters.bit, 30);
});

test("one element is found by coordinates or by its flat index; several are none", () => {
  assert.deepEqual(elementOf({ index: [0, 3] }, [2, 8]), [0, 3]);
  assert.deepEqual(elementOf({ index: 11 }, [2, 8]), [1, 3]);
  assert.equal(elementOf({ index: [[0, 3], [1, 2]] }, [2, 8]), null);
  assert.equal(elementOf("all", [2, 8]), null);
});
