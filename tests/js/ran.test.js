import assert from "node:assert/strict";
import { test } from "node:test";
import { earlierText, statusOf } from "../../fi_notebook/assets/explorer/ran.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";

const F1 = { id: "f1", content: "27", enabled: true };
const F2 = { id: "f2", content: "x", enabled: true };
const OFF = { ...F2, content: "x off", enabled: false };
const STATUS = { f1: "struck", f2: "not injected" };

/** A store whose last replay ran some faults, and that has others now. */
function after(ran, now) {
  const store = new Store(() => {});
  store.run = { plan: ran, status: STATUS };
  store.plan = { faults: now };
  return store;
}

test("a fault has the status of the very fault that ran, not of its name", () => {
  assert.equal(statusOf(after([F1], [F1]), F1), "struck");
  assert.equal(statusOf(after([F1], []), { ...F1, content: "28" }), undefined);
  assert.equal(statusOf(after([F1, OFF], []), F2), undefined, "it was off when the replay was made");
  assert.equal(statusOf(new Store(() => {}), F1), undefined);
});

test("a result of an earlier plan says so and what to do", () => {
  assert.equal(earlierText(after([F1], [F1])), "");
  assert.equal(earlierText(after([F1, OFF], [F1])), "", "what is off strikes nothing");
  assert.match(earlierText(after([F1], [{ ...F1, content: "28" }])), /earlier plan: press Replay/);
  assert.match(earlierText(after([F1], [F1, F2])), /press Replay/);
  assert.match(earlierText(after([F1], [OFF])), /earlier plan; no fault is armed now/);
  assert.match(earlierText(after([F1, F2], [F2, F1])), /press Replay/, "faults strike in the order of the plan");
  assert.equal(earlierText(Object.assign(after([F1], []), { readonly: true })), "This is the result of an earlier plan.");
  assert.equal(earlierText(Object.assign(after([F1], [F1]), { replaying: true })), "This is the result of the run before.");
  assert.equal(earlierText(new Store(() => {})), "");
});
