import assert from "node:assert/strict";
import { test } from "node:test";
import { curveOf, shareOf } from "../../fi_notebook/assets/explorer/spark.js";

test("few calls are all drawn", () => assert.deepEqual(curveOf([3, 1, 2]), [0, 1, 2]));

test("the curve of 10,000 calls reaches from the first to the last stretch and keeps its extremes", () => {
  const values = Float32Array.from({ length: 10_000 }, (_, n) => Math.sin(n));
  values[9_990] = 50;
  values[17] = -50;
  const drawn = curveOf(values);
  assert.ok(drawn.length <= 400);
  assert.ok(drawn.includes(9_990) && drawn.includes(17));
  assert.ok(drawn[0] < 50 && drawn.at(-1) >= 9_950);
  assert.deepEqual(drawn, [...drawn].sort((a, b) => a - b));
});

test("call 5,000 of 10,000 is marked in the middle", () => {
  assert.ok(Math.abs(shareOf(4_999, 10_000) - 0.5) < 1e-3);
  assert.equal(shareOf(0, 1), 0.5);
});
