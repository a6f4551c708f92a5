import assert from "node:assert/strict";
import { test } from "node:test";
import { edit, elementOf, formOf, uneditable } from "../../fi_notebook/assets/explorer/editing.js";
import { faultText } from "../../fi_notebook/assets/explorer/fault.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

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
  assert.deepEqual(elementOf({ index: [-1, -8] }, [2, 8]), [1, 0]);
  assert.deepEqual(elementOf({ index: -1 }, [2, 8]), [1, 7]);
  assert.deepEqual(elementOf({ index: [] }, []), []);
  assert.equal(elementOf({ index: [[0, 3], [1, 2]] }, [2, 8]), null);
  assert.equal(elementOf("all", [2, 8]), null);
});

test("the edited fault comes back with its site, as it was left", () => {
  const store = new Store(() => {});
  store.trace = trace();
  const fault = { ...FAULT, target: "mm*1:0", enabled: true, rows: [0] };
  store.plan = { faults: [fault] };
  store.trees.modules = { nodeOfRow: Int32Array.from([0, 1, 2, 3, 4, 5]), parent: new Int32Array(6).fill(-1), size: 6 };
  store.visible = () => ({ mask: new Uint8Array(6).fill(1) });
  store.open.modules = new Uint8Array(6);
  edit(store, fault);
  store.ui.form.parameters.bit = "12";
  store.select(2); // of another shape: its element cannot stay
  assert.equal(store.ui.element, null);
  store.ui.form.model = "zero";
  store.select(0);
  assert.deepEqual([store.ui.element, store.ui.form.model, store.ui.form.parameters], [[0, 3], "bitflip", { bit: "12" }]);
  assert.match(faultText(store), /^bitflip\(bit="12"\) on element \[0, 3\]/);
  clearTimeout(store.timer);
});

test("a fault in a stored tensor is edited in Python", () => {
  const store = new Store(() => {});
  store.trace = trace();
  assert.match(uneditable(store, { target: "param:fc1.weight", rows: [], elements: "all" }), /^a stored tensor has no form; edit it in Python/);
  assert.equal(uneditable(store, { target: "mm*9:0", rows: [], elements: "all" }), "the golden run made no such call");
});
