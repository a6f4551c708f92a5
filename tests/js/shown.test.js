import assert from "node:assert/strict";
import { test } from "node:test";
import { brief, healthOf } from "../../fi_notebook/assets/explorer/health.js";
import { KIND, openTo } from "../../fi_notebook/assets/explorer/layout.js";
import { heatText } from "../../fi_notebook/assets/explorer/shown.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

/** A store that shows the small step. */
function opened() {
  const store = new Store(() => {});
  const { data, columns } = trace();
  store.receive({ kind: "trace", data, columns: { ...columns, zeros: Int32Array.of(32, 16, 0, 0, 0, 0) } });
  return store;
}

test("a tree opens down to a depth, and folds below it", () => {
  const store = opened();
  const depths = () => Math.max(...store.visible().nodes.map((node) => store.tree().depth[node]));
  for (const depth of [0, 1, 2, 3]) {
    store.openTo(depth);
    assert.equal(depths(), depth);
  }
  assert.deepEqual([...openTo(store.tree(), 1)], [...store.tree().depth].map((depth) => Number(depth < 1)));
});

test("any statistic can be the heat, on the scale of its size", () => {
  const store = opened();
  store.trace.columns.min = Float32Array.of(-8, 0, NaN, 1, 2, 4);
  store.ui.heat = "min";
  store.changed("tree");
  const { heat, tree } = store.visible();
  assert.equal(heat.high, 8);
  assert.equal(heat.low, 0.008, "a thousandth of the largest, so that 4 beside 8 is no empty bar");
  assert.equal(heat.most[0], 8);
  assert.equal(heat.most[tree.nodeOfRow[2]], -1, "NaN has no bar");
});

test("whole numbers have no say in the scale of a statistic, for an index is no value", () => {
  const store = opened();
  store.trace.data.dtypes = ["float32", "int64"]; // of rows 0, 1, 5 and of 2, 3, 4
  store.trace.columns.std = Float32Array.of(1, 2, 900, 900, 900, 4);
  store.ui.heat = "std";
  store.changed("tree");
  assert.equal(store.visible().heat.high, 4);
});

test("a heat has the name that texts and figures have", () => {
  assert.deepEqual(["std", "nan", "neginf", "error"].map(heatText), ["std", "NaN", "−Inf", "relative L2"]);
});

test("the relative L2 is the heat only after a replay", () => {
  const store = opened();
  store.ui.heat = "error";
  assert.equal(store.visible().heat, null);
  store.errors = { error: Float32Array.of(-1, 0.5, 0, 0, 0, 0), bad: new Int32Array(6), changed: Int32Array.of(-1, 1, 0, 0, 0, 0) };
  store.changed("run");
  const { heat, changed, tree } = store.visible();
  assert.equal(heat.most[0], 0.5);
  assert.equal(heat.most[tree.nodeOfRow[0]], -1, "what was not compared has no bar");
  assert.equal(changed[tree.nodeOfRow[2]], 0);
  store.errors.bad[2] = 8;
  store.changed("run");
  assert.equal(store.visible().heat.most[store.tree().nodeOfRow[2]], Infinity, "to NaN there is no distance, and none is 0");
  assert.equal(store.visible().heat.high, 0.5);
});

test("health tells NaN, infinities of either sign and mostly zeros", () => {
  const { trace: step } = opened();
  const texts = (row) => healthOf(step, row).map(({ text }) => text);
  assert.deepEqual(texts(0), ["all zero"], "32 of 4 × 8");
  assert.deepEqual(texts(1), ["50 % zero"], "16 of 4 × 8");
  assert.deepEqual(texts(2), []);
  assert.deepEqual(texts(3), ["all NaN"], "2 of 2");
  assert.deepEqual(texts(4), ["+Inf 1"]);
  step.columns.neginf[4] = 1;
  assert.deepEqual(texts(4), ["all ±Inf"]);
  step.columns.nan[0] = 31;
  assert.deepEqual(texts(0), ["NaN 31"]);
});

test("a count in a chip has at most four characters and is never rounded up", () => {
  const counts = [[0, "0"], [999, "999"], [1_000, "1k"], [1_999, "1.9k"], [65_536, "65k"], [999_999, "999k"], [1_290_000, "1.2M"], [5e9, "5G"]];
  for (const [n, text] of counts) assert.equal(brief(n), text);
});

test("what is folded comes back when it is searched or unfolded", () => {
  const store = opened();
  assert.equal(store.visible().total, 5);
  store.ui.folded = true;
  store.changed("tree");
  assert.equal(store.visible().total, 6);
  assert.equal(store.tree().kind.filter((kind) => kind === KIND.site).length, 6);
});

test("a pattern that is half typed leaves the tree as it was", () => {
  const store = opened();
  store.ui.query = "re:(";
  store.changed("tree");
  const { total, problem } = store.visible();
  assert.deepEqual([total, problem], [5, "re:( is no pattern: unterminated group"]);
});

test("a branch tells only of the sites that the search and the phases leave", () => {
  const store = opened();
  store.run = { effects: [] };
  store.errors = { effect: new Uint8Array(6), error: Float32Array.of(0, 0.5, 0, 2, 0, 0), bad: Int32Array.of(0, 0, 0, 7, 0, 0), changed: Int32Array.of(0, 3, 0, 9, 0, 0) };
  const root = () => {
    store.changed("tree");
    const { heat, bad, broken, changed } = store.visible();
    return [heat.most[0], bad[0], broken[0], changed[0], heat.high];
  };
  assert.deepEqual(root(), [4, 2, 7, 9, 5], "std is the row's number; the folded call has 5");
  store.ui.query = "op:relu";
  assert.deepEqual(root(), [1, 0, 0, 3, 5]);
  store.ui.query = "op:none";
  assert.deepEqual(root(), [-1, -1, -1, -1, 5]);
  store.ui.query = "";
  store.ui.hidden.add(2);
  assert.deepEqual(root(), [2, 0, 0, 3, 5], "without the backward phase");
});
