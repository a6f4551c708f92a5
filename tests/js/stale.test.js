import assert from "node:assert/strict";
import { test } from "node:test";
import { changedCells, watchCells } from "../../fi_notebook/assets/explorer/stale.js";

const SOURCES = {
  "In [2]": "def f(x):\n    return x\n",
  "In [5]": "get_ipython().fi_explore(model=(net))\nloss = f(net(x))\nloss",
  "/home/me/nets.py": "x = 1",
};
const cell = (number, text, whole = true) => ({ number, text, whole });
const FUNCTION = cell(2, "def f(x):\n    return x");
const MAGIC = cell(5, "%%fi_explore model=net\nloss = f(net(x))\nloss");

test("cells that are as they were say nothing, nor do files and cells that are not shown", () => {
  assert.equal(changedCells(SOURCES, [FUNCTION, MAGIC, cell(3, "x = 2")]), "");
  assert.equal(changedCells(SOURCES, []), "");
});

test("empty lines before and after, which Python leaves out, change nothing", () => {
  assert.equal(changedCells(SOURCES, [cell(2, "\n\ndef f(x):\n    return x\n\n")]), "");
});

test("a cell that was edited is named", () => {
  assert.equal(changedCells(SOURCES, [cell(2, "def f(x):\n    return 2 * x"), MAGIC]), "In [2] was edited");
  assert.equal(changedCells(SOURCES, [FUNCTION, cell(5, "%%fi_explore model=net\nloss = 2 * f(net(x))\nloss")]), "In [5] was edited");
});

test("a cell that was run again is named with its new number", () => {
  assert.equal(changedCells(SOURCES, [{ ...FUNCTION, number: 7 }, MAGIC]), "In [2] was run again as In [7]");
});

test("of a long cell the drawn part is looked for", () => {
  assert.equal(changedCells(SOURCES, [cell(2, "    return x", false)]), "");
  assert.equal(changedCells(SOURCES, [cell(2, "    return y", false)]), "In [2] was edited");
});

/** Runs with timers that wait until they are run. */
function withTimers(body) {
  const kept = [globalThis.setTimeout, globalThis.clearTimeout];
  const waiting = new Map();
  globalThis.setTimeout = (act) => waiting.set(waiting.size + 1, act).size;
  globalThis.clearTimeout = (number) => waiting.delete(number);
  try {
    body(() => waiting.forEach((act) => act()));
  } finally {
    [globalThis.setTimeout, globalThis.clearTimeout] = kept;
  }
}

/** A view in a notebook, and who hears the notebook and the store. */
function viewed() {
  const heard = new Set();
  const notebook = {
    querySelectorAll: () => [],
    addEventListener: (event) => heard.add(event),
    removeEventListener: (event) => heard.delete(event),
  };
  const store = { subscribe: () => { heard.add("store"); return () => heard.delete("store"); } };
  return { view: { store, root: { closest: () => notebook } }, heard };
}

test("a view that is closed before it was placed never hears the notebook", () => {
  withTimers((run) => {
    const { view, heard } = viewed();
    watchCells(view)();
    run();
    assert.deepEqual([...heard], []);
  });
});

test("a view that was placed hears the notebook until it is closed", () => {
  withTimers((run) => {
    const { view, heard } = viewed();
    const close = watchCells(view);
    run();
    assert.deepEqual([...heard], ["store", "input", "keyup", "focusin", "pointerenter"]);
    close();
    assert.deepEqual([...heard], []);
  });
});
