import assert from "node:assert/strict";
import { test } from "node:test";
import { KIND, flatten, highest, tally } from "../../fi_notebook/assets/explorer/layout.js";
import { hoverText, nodeText, stemOf } from "../../fi_notebook/assets/explorer/nodes.js";
import { VIEWS, buildTree } from "../../fi_notebook/assets/explorer/views.js";
import { trace } from "./step.mjs";

/** Every node as an indented line. */
function lines(view) {
  const step = trace();
  const tree = buildTree(step, view);
  const store = { trace: step, ui: { view } };
  return [...tree.kind.keys()].map((node) => "  ".repeat(tree.depth[node]) + nodeText(store, tree, node).name);
}

test("modules hold modules, then operators, then sites", () => {
  assert.deepEqual(lines("modules"), [
    "Net",
    "  fc1",
    "    inner",
    "      mm*2:0",
    "      mm_backward*1",
    "        mm_backward*1:0",
    "        mm_backward*1:1",
    "    mm*1:0",
    "    relu*1:0",
    "  detach*1:0",
  ]);
});

test("a backward call stands at the line of its forward call", () => {
  assert.deepEqual(lines("source"), [
    "net.py",
    "  3",
    "    mm*1:0",
    "    relu*1:0",
    "  9",
    "    mm*2:0",
    "    mm_backward*1",
    "      mm_backward*1:0",
    "      mm_backward*1:1",
    "(no source line)",
    "  detach*1:0",
  ]);
});

test("operators hold their calls, the timeline runs of a phase", () => {
  assert.equal(lines("operators")[0], "mm");
  assert.deepEqual(lines("timeline").filter((line) => !line.startsWith(" ")), ["forward", "backward", "forward"]);
});

test("the model of a compiled step says that it ran eagerly", () => {
  const step = trace();
  step.data.info = { ran_eagerly: true };
  const tree = buildTree(step, "modules");
  assert.deepEqual(nodeText({ trace: step, ui: { view: "modules" } }, tree, 0), { name: "Net", detail: "ran eagerly" });
});

test("numbered siblings of one class fold into one node", () => {
  const step = trace();
  step.data.modules = [["", "Net", []], ...[0, 1, 2, 3].map((n) => [`layers.${n}`, "Block", []]), ["norm", "Norm", []]];
  step.columns.module = Int32Array.of(1, 2, 3, 4, 4, 5);
  const tree = buildTree(step, "modules");
  const store = { trace: step, ui: { view: "modules" } };
  const texts = [...tree.kind.keys()].filter((node) => tree.kind[node] !== KIND.site && tree.depth[node] < 3)
    .map((node) => nodeText(store, tree, node)).map(({ name, detail }) => `${name} ${detail}`);
  assert.deepEqual(texts, ["Net ", "layers.* Block × 4", "layers.0 Block", "layers.1 Block", "layers.2 Block", "layers.3 Block", "norm Norm"]);
});

test("a module in a fold is called by what lies below the module above the fold", () => {
  const step = trace();
  step.data.modules = [["", "Net", []], ["blocks", "ModuleList", []], ...[0, 1, 2, 3].map((n) => [`blocks.${n}`, "Block", []])];
  step.columns.module = Int32Array.of(2, 3, 4, 5, 5, 1);
  const tree = buildTree(step, "modules");
  const store = { trace: step, ui: { view: "modules" } };
  const names = [...tree.kind.keys()].filter((node) => tree.kind[node] === KIND.module || tree.kind[node] === KIND.fold)
    .map((node) => nodeText(store, tree, node).name);
  assert.deepEqual(names, ["Net", "blocks", "*", "0", "1", "2", "3"]);
});

test("sites of one line are told by where their modules part", () => {
  const step = trace();
  step.data.modules = [["net.layers.3.fc", "Linear", []], ["net.layers.40.fc", "Linear", []]];
  step.columns.module = Int32Array.of(0, 1, 0, 0, 0, 0);
  const tree = buildTree(step, "source");
  const detail = (row, view) => nodeText({ trace: step, ui: { view } }, tree, tree.nodeOfRow[row]).detail;
  assert.deepEqual([0, 1].map((row) => detail(row, "source")), ["…3.fc", "…40.fc"]); // both at line 3
  assert.equal(detail(2, "source"), "net.layers.3.fc"); // line 9 has no other
  const hover = (row) => hoverText({ trace: step, ui: { view: "source" } }, tree, tree.nodeOfRow[row]);
  assert.deepEqual([0, 2].map(hover), ["mm*1:0 net.layers.3.fc", "mm*2:0 net.layers.3.fc"]);
});

test("a stored tensor is called by what lies below the module above it", () => {
  const step = trace();
  step.data.parameters = ["fc1.inner.weight"];
  step.columns.parameter[2] = 0;
  const tree = buildTree(step, "modules");
  assert.equal(nodeText({ trace: step, ui: { view: "modules" } }, tree, tree.nodeOfRow[2]).detail, "weight");
});

test("paths have the modules in common that they begin with, never the last component", () => {
  assert.equal(stemOf(["a.b.c", "a.b.d"]), "a.b");
  assert.equal(stemOf(["a.b", "a.b.c"]), "a");
  assert.equal(stemOf(["ab.c", "a.c"]), "");
  assert.equal(stemOf(["a.b.c"]), "");
});

for (const view of VIEWS) {
  test(`every site stands in the ${view} tree once`, () => {
    const tree = buildTree(trace(), view);
    const sites = [...tree.kind.keys()].filter((node) => tree.kind[node] === KIND.site);
    assert.deepEqual(sites.map((node) => tree.ref[node]).sort(), [0, 1, 2, 3, 4, 5]);
    for (const row of tree.nodeOfRow.keys()) assert.equal(tree.ref[tree.nodeOfRow[row]], row);
    for (const node of tree.parent.keys()) {
      const above = tree.parent[node];
      if (above >= 0) assert.ok(above < node && tree.end[node] <= tree.end[above]);
    }
  });
}

test("only open branches with a hit are shown", () => {
  const tree = buildTree(trace(), "modules");
  const mask = Uint8Array.of(0, 1, 0, 0, 0, 0);
  const found = tally(tree, mask);
  assert.equal(found[0], 1);
  const shut = new Uint8Array(tree.size);
  assert.deepEqual([...flatten(tree, shut, found)], [0]);
  const open = new Uint8Array(tree.size).fill(1);
  assert.deepEqual([...flatten(tree, open, found)], [0, 1, tree.nodeOfRow[1]]);
});

test("a branch shows the largest value below it", () => {
  const tree = buildTree(trace(), "modules");
  const most = highest(tree, [5, 1, 2, 9, -1, 0], new Uint8Array(6).fill(1));
  assert.equal(most[0], 9);
});

test("100,000 sites are laid out and flattened quickly", () => {
  const small = trace();
  const size = 100_000;
  const columns = {};
  for (const [name, column] of Object.entries(small.columns)) {
    columns[name] = column.constructor.from({ length: size }, (_, at) => column[at % 6]);
  }
  columns.call = Int32Array.from({ length: size }, (_, at) => at);
  const started = performance.now();
  const tree = buildTree({ data: small.data, columns, size }, "modules");
  const found = tally(tree, new Uint8Array(size).fill(1));
  const nodes = flatten(tree, new Uint8Array(tree.size).fill(1), found);
  assert.equal(nodes.length, tree.size);
  assert.ok(performance.now() - started < 2000, `${performance.now() - started} ms`);
});
