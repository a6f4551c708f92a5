import assert from "node:assert/strict";
import { test } from "node:test";
import { stopText, stopsOf, stopsText } from "../../fi_notebook/assets/explorer/scrub.js";
import { trace } from "./step.mjs";

const EFFECTS = ["equal", "introduced", "amplified", "attenuated", "masked"];

test("the scrubber stops at what differs and the golden run has, in the order of execution", () => {
  const golden = Int32Array.from([0, 1, -1, 3, 2]); // the third output is of the faulty run alone
  const effect = Uint8Array.from([0, 1, 0, 4, 255]);
  const stops = stopsOf({ golden, effect }, EFFECTS);
  const { at, rows } = stops;
  assert.deepEqual([...at], [1, 3]);
  assert.deepEqual([...rows], [1, 3]);
  assert.equal(stopsText(stops), "1 that differs, 1 that masks the error");
  assert.equal(stopsText({ at, rows: Int32Array.of(0, 1), masks: 0 }), "2 that differ");
  assert.equal(stopsOf({ golden: Int32Array.of(0), effect: Uint8Array.of(0) }, EFFECTS).at.length, 0);
});

test("a stop says the call, what it did and how large the error is", () => {
  const store = {
    trace: trace(), run: { effects: EFFECTS },
    errors: { effect: Uint8Array.from([0, 1, 2]), error: Float32Array.from([0, 0.25, Infinity]), bad: Int32Array.from([0, 0, 1200]) },
  };
  assert.match(stopText(store, 1), /· introduced · relative L2 0\.25$/);
  assert.match(stopText(store, 2), /· amplified · 1,200 NaN or Inf$/);
});
