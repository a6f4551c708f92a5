import assert from "node:assert/strict";
import { test } from "node:test";
import { changedFaults, planChange } from "../../fi_notebook/assets/explorer/changes.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";

const fault = (id, content = id, enabled = true) => ({ id, content, enabled, text: `${id}: zero`, rows: [] });
const [F1, F2] = [fault("f1"), fault("f2")];

test("a change of the plan is told by what became of each fault", () => {
  assert.equal(planChange([], [F1]), "armed f1");
  assert.equal(planChange([F1, F2], [F2]), "disarmed f1");
  assert.equal(planChange([F1], [fault("f1", "other")]), "changed f1");
  assert.equal(planChange([F1, F2], [F1, fault("f2", "off", false)]), "f2 switched off");
  assert.equal(planChange([fault("f2", "off", false)], [F2]), "f2 switched on");
  assert.equal(planChange([F1], [F2]), "disarmed f1; armed f2");
  assert.equal(planChange([], ["a", "b", "c", "d"].map((id) => fault(id))), "armed 4 faults");
  assert.equal(planChange([F1], [F1]), "");
});

test("the faults of a change are those that are gone, and those that are new or other", () => {
  assert.equal(changedFaults([F1, F2], [F2, fault("f3")]), "f1: zero\nf3: zero");
});

test("the log has each change of the plan, but not the plan that a page begins with", () => {
  const store = new Store(() => {});
  for (const faults of [[F1], [F1], [F1, F2], [F2]]) store.receive({ kind: "plan", data: { faults }, columns: {} });
  assert.deepEqual(store.log.map(({ text, more }) => [text, more]), [["disarmed f1", "f1: zero"], ["armed f2", "f2: zero"]]);
  clearTimeout(store.toldTimer);
});
