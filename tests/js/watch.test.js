import assert from "node:assert/strict";
import { test } from "node:test";

import { merged, spoken } from "../../fi_notebook/assets/explorer/watch.js";

test("points that moved stand in the figure; what stands still is kept", () => {
  const figure = { data: [{ name: "golden run", y: [1] }, { name: "training", y: [1] }], layout: { height: 9 } };
  const { data, layout } = merged(figure, { 1: { x: [0, 1], y: [1, 2] } });
  assert.deepEqual(data, [{ name: "golden run", y: [1] }, { name: "training", x: [0, 1], y: [1, 2] }]);
  assert.equal(layout.height, 9);
  assert.deepEqual(figure.data[1].y, [1]);
});

test("only new alerts are spoken", () => {
  const frame = { count: 3, alerts: ["step 4: relu*1:0 holds 1 NaN", "later"] };
  assert.match(spoken({}, frame), /^3 new alerts; the first of all: step 4/);
  assert.match(spoken({ count: 2 }, frame), /^a new alert;/);
  assert.equal(spoken({ count: 3 }, frame), "");
  assert.equal(spoken({ count: 5 }, { count: 0, alerts: [] }), "");
});
