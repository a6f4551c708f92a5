import assert from "node:assert/strict";
import { test } from "node:test";
import { liveFigure } from "../../fi_notebook/assets/explorer/training.js";

const record = (step, loss, gradient_norm, parameter_distance) => ({ step, loss, gradient_norm, parameter_distance });

test("loss, gradient norm and parameter distance are drawn while a replay runs", () => {
  const { data, layout } = liveFigure({ golden: [record(0, 1, 2, 0), record(1, 0.5, 1, 0)], faulty: [record(0, 3, "inf", 0.25)] });
  assert.deepEqual(data.map(({ name, yaxis, x, y }) => [name, yaxis, x, y]), [
    ["golden", "y", [0, 1], [1, 0.5]], ["faulty", "y", [0], [3]],
    ["golden", "y2", [0, 1], [2, 1]], ["faulty", "y2", [0], [Infinity]],
    ["golden", "y3", [], []], ["faulty", "y3", [0], [0.25]], ["NaN or Inf (faulty)", "y2", [0], [2]]]);
  assert.deepEqual([layout.yaxis, layout.yaxis2, layout.yaxis3].map((axis) => axis.title.text.split("<br>")[0]),
    ["loss", "gradient norm", "parameter distance"]);
  assert.equal(layout.xaxis.anchor, "y3");
  assert.deepEqual(data.filter((each) => each.showlegend).map((each) => each.name), ["golden", "faulty", "NaN or Inf (faulty)"]);
});

test("a quantity without a number has no row", () => {
  const { data, layout } = liveFigure({ golden: [record(0, 1, "nan", 0)], faulty: [] }); // nor a distance yet
  assert.deepEqual([data.length, layout.yaxis.domain, layout.yaxis2, layout.xaxis.anchor], [2, [0, 1], undefined, "y"]);
  assert.deepEqual(liveFigure({ golden: [], faulty: [] }).data, []);
});

test("a run that is NaN is crosses, a point alone is marked, and a distance is never below 0", () => {
  const { data, layout } = liveFigure({ golden: [record(0, 1, 2, 0), record(1, 3, 2, 0)], faulty: [record(0, 1, 2, 0), record(1, "nan", "-inf", "nan")] });
  const crosses = data.filter((each) => each.name === "NaN or Inf (faulty)");
  assert.deepEqual(crosses.map(({ yaxis, x, y, text }) => [yaxis, x, y, text]),
    [["y", [1], [3], ["NaN"]], ["y2", [1], [2], ["−Inf"]], ["y3", [1], [1], ["NaN"]]]);
  assert.deepEqual(new Set(data.map((each) => each.mode)), new Set(["lines+markers", "markers"]));
  assert.deepEqual([layout.yaxis.rangemode, layout.yaxis3.rangemode], ["normal", "tozero"]);
});
