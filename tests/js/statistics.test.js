import assert from "node:assert/strict";
import { test } from "node:test";
import { statisticTexts } from "../../fi_notebook/assets/explorer/statistics.js";

test("where no element is finite there is a dash, and counts are in full", () => {
  assert.deepEqual(statisticTexts("min", 0.5, "nan", "float32"), ["0.5", "–"]);
  assert.deepEqual(statisticTexts("norm", NaN, NaN, "float32"), ["–", "–"]);
  assert.deepEqual(statisticTexts("posinf", 0, 1234567, "float32"), ["0", "1,234,567"]);
});

test("the ends of an integer tensor are whole, its mean is a number", () => {
  assert.deepEqual(statisticTexts("max", 33554433, 33554432, "int32"), ["33,554,433", "33,554,432"]);
  assert.deepEqual(statisticTexts("mean", 0.25, 0.5, "int32"), ["0.25", "0.5"]);
  assert.deepEqual(statisticTexts("mean", 0.39637, 0.39638, "float32"), ["0.39637", "0.39638"]);
});
