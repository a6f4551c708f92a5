import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { unrunText } from "../../fi_notebook/assets/explorer/result.js";
import { stateText } from "../../fi_notebook/assets/explorer/foot.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

/** A channel whose kernel is gone: it throws at once, or its promise fails. */
const DEAD = {
  "a channel that throws": () => { throw new Error("Cannot send"); },
  "a channel that fails later": () => Promise.reject(new Error("Cannot send")),
};

for (const [name, send] of Object.entries(DEAD)) {
  test(`${name} rejects the request with its reason and makes the view read-only`, async () => {
    const store = new Store(send);
    const topics = [];
    store.subscribe((changed) => topics.push(...changed));
    await assert.rejects(store.ask("ping"), /the kernel is gone/);
    assert.match(store.lost, /^the kernel is gone; run /);
    assert.equal(store.waiting.size, 0);
    assert.ok(topics.includes("state"));
    await assert.rejects(store.ask("arm"), /the kernel is gone/);
  });

  test(`${name} is told once in the log, and nothing is left unhandled`, async () => {
    const store = new Store(send);
    await Promise.all([store.tell("ping"), store.tell("replay")]);
    await store.tell("ping");
    assert.deepEqual(store.log.map(({ text, more }) => [text, more]), [[store.lost, "Error: Cannot send"]]);
  });
}

test("what waits for an answer is told when the kernel goes", async () => {
  const store = new Store(() => {});
  const asked = store.ask("replay");
  store.lose("superseded by a newer session of this model");
  store.lose("the kernel is gone");
  await assert.rejects(asked, /superseded/);
});

test("after a lost message a request that the kernel no longer works on is given up", async () => {
  const sent = [];
  const store = new Store(({ kind, id }) => sent.push([kind, id]));
  const lost = assert.rejects(store.ask("arm"), /^Error: the answer of the kernel was lost; see what is shown before/);
  const awaited = store.ask("replay");
  const again = store.resync();
  const reply = (id, data) => store.receive({ kind: "reply", data: { id, data }, columns: {} });
  assert.deepEqual(sent, [["arm", 1], ["replay", 2], ["resync", 3]]);
  const later = store.ask("undo");
  reply(3, [2]);
  await Promise.all([again, lost]);
  assert.deepEqual([...store.waiting.keys()], [2, 4]);
  reply(2, "done");
  reply(4, "undone");
  assert.deepEqual(await Promise.all([awaited, later]), ["done", "undone"]);
});

/** A store whose kernel answers: an error for what is listed, else the answer. */
function answered(answers) {
  const store = new Store(({ kind, id }) => setImmediate(() => store.receive(answers[kind] instanceof Error
    ? { kind: "error", data: { id, text: answers[kind].message, traceback: "" }, columns: {} }
    : { kind: "reply", data: { id, data: answers[kind] ?? null }, columns: {} })));
  return store;
}

test("an error stands until something succeeds, not until a ping does", async () => {
  const store = answered({ save: new Error("there is no folder x") });
  await store.tell("save");
  assert.equal(store.failed, "there is no folder x");
  await store.tell("ping");
  assert.equal(store.failed, "there is no folder x");
  await store.tell("undo");
  assert.equal(store.failed, "");
});

test("an error that comes while a request runs outlives its success", async () => {
  const store = answered({});
  const asked = store.tell("replay");
  store.fail("the picture could not be drawn");
  await asked;
  assert.equal(store.failed, "the picture could not be drawn");
});

test("what was done is told until the next thing is done, and stays in the log", async () => {
  const store = answered({});
  store.done("saved mine.json", "/home/me/mine.json");
  assert.deepEqual([store.told, store.log[0].level, store.log[0].text, store.log[0].more], ["saved mine.json", "info", "saved mine.json", "/home/me/mine.json"]);
  await store.tell("disarm");
  assert.equal(store.told, "");
  store.done("saved mine.json");
  store.fail("no");
  store.receive({ kind: "state", data: { state: "replaying" }, columns: {} });
  assert.deepEqual([store.told, store.failed], ["", ""]);
});

test("a box is off where all its faults are, and a click switches on", async () => {
  const sent = [];
  const store = new Store((content) => {
    sent.push(content);
    setImmediate(() => {
      plan(fault("f1", false), fault("f2", true));
      store.receive({ kind: "reply", data: { id: content.id, data: null }, columns: {} });
    });
  });
  const plan = (...faults) => store.receive({ kind: "plan", data: { faults }, columns: {} });
  const fault = (id, enabled) => ({ id, enabled, rows: [3] });
  plan();
  assert.equal(store.boxOf(3), "free");
  plan(fault("f1", true), fault("f2", false));
  assert.equal(store.boxOf(3), "armed");
  plan(fault("f1", false), fault("f2", false));
  assert.equal(store.boxOf(3), "off");
  assert.equal(await store.toggleArmed(3), "f2 switched on");
  assert.deepEqual([sent[0].kind, sent[0].fault, sent[0].on], ["enable", "f2", true]);
});

test("what was done is told for a while, and never hides that the cells have changed", () => {
  const store = new Store(() => {});
  const { data, columns } = trace();
  store.receive({ kind: "trace", data, columns });
  const said = () => stateText(store).text;
  store.done("copied as code");
  assert.equal(said(), "copied as code");
  store.stale = "In [2] was edited";
  assert.equal(said(), "stale: In [2] was edited; run the step's cell again · copied as code");
  assert.equal(stateText(store).kind, "warn");
  mock.timers.tick(9_999);
  store.done("saved injector.json");
  mock.timers.tick(9_999);
  assert.equal(store.told, "saved injector.json", "a new message has its own time");
  mock.timers.tick(1);
  assert.equal(said(), "stale: In [2] was edited; run the step's cell again");
  store.stale = "";
  assert.equal(said(), "ready");
});

test("before there is a result, what stands there says what to do next", () => {
  const store = new Store(() => {});
  const plan = (...enabled) => store.receive({ kind: "plan", data: { faults: enabled.map((on, at) => ({ id: `f${at}`, enabled: on, rows: [] })) }, columns: {} });
  const begins = (text) => assert.ok(unrunText(store).startsWith(text), unrunText(store));
  begins("When the step is traced, arm a fault");
  const { data, columns } = trace();
  store.receive({ kind: "trace", data, columns });
  begins("Arm a fault and press Replay");
  plan(false);
  begins("Switch on a fault and press Replay");
  plan(false, true);
  begins("Press Replay");
  store.state = { state: "replaying" };
  begins("replaying …");
  store.lose("the explorer was closed");
  begins("Nothing was replayed.");
});

/** A store in which a site is chosen and one element of it is aimed at. */
function aimedAt(row, element) {
  const store = new Store(() => {});
  const { data, columns } = trace();
  store.receive({ kind: "trace", data, columns });
  store.select(row);
  Object.assign(store.ui, { element });
  store.ui.form.extent = "index";
  return store;
}

test("the index stays aimed at where another tensor has it, and else one element is drawn", () => {
  const store = aimedAt(1, [1, 1]); // of 4 × 8
  store.trace.data.shapes.push([2, 2], [3], []);
  const go = (row, shape) => {
    store.trace.columns.shape[row] = shape;
    store.select(row);
    return [store.ui.element, store.ui.form.extent, store.ui.form.extentText];
  };
  assert.deepEqual(go(2, 2), [[1, 1], "index", "1"]);
  assert.deepEqual(go(3, 3), [null, "count", "1"]);
  assert.deepEqual(go(4, 4), [[], "count", "1"]);
});

test("a search that is emptied leaves the chosen site in sight", () => {
  const store = aimedAt(2, null);
  store.ui.view = "modules";
  store.changed("tree");
  store.openTo(0);
  const inSight = () => store.visible().nodes.includes(store.tree().nodeOfRow[2]);
  assert.equal(inSight(), false);
  store.openAbove(2);
  store.changed("tree");
  assert.equal(inSight(), true);
});

test("the steps of a replay are kept until its result has come, or it has stopped", () => {
  const store = new Store(() => {});
  const receive = (kind, data) => store.receive({ kind, data, columns: {} });
  const steps = { golden: [{ step: 0 }], faulty: [] };
  for (const [kind, data] of [["state", { state: "idle" }], ["run", null]]) {
    receive("state", { state: "replaying" });
    receive("steps", steps);
    assert.deepEqual([store.steps, store.replaying], [steps, true]);
    receive(kind, data);
    receive("steps", steps); // on its way meanwhile
    assert.deepEqual([store.steps, store.replaying], [null, false]);
    receive("state", { state: "idle" });
  }
});

test("the figures of an earlier run are not shown as those of the newest", () => {
  const store = new Store(() => {});
  const run = { outcome: {}, not_injected: [], messages: [] };
  store.receive({ kind: "figures", data: { figures: { training: "{}" }, texts: {} }, columns: {} });
  store.receive({ kind: "run", data: run, columns: {} });
  assert.deepEqual(store.figures, { figures: {}, texts: {}, awaited: true });
});
