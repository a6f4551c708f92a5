import assert from "node:assert/strict";
import { test } from "node:test";
import { faultText, planCode, planText, readForm, requestOf, targetText, triggerTexts } from "../../fi_notebook/assets/explorer/fault.js";
import { Store } from "../../fi_notebook/assets/explorer/store.js";
import { trace } from "./step.mjs";

/** A store whose form describes a fault at `mm*2:0`. */
function described(form, element = null) {
  const store = new Store(() => {});
  store.trace = trace();
  store.ui.row = 2;
  store.ui.element = element;
  Object.assign(store.ui.form, form);
  return store;
}

test("the form begins with one element, drawn by the seed", () => {
  const store = described({});
  assert.deepEqual(requestOf(store, 2), {
    site: "mm*2:0", model: "bitflip", parameters: {}, elements: { count: 1 }, steps: "0", seed: 0,
  });
  assert.equal(faultText(store), "bitflip on 1 drawn element, step 0");
});

test("one element must have been chosen", () => {
  assert.throws(() => requestOf(described({ extent: "index" }), 2), /no element is chosen; click one/);
  const store = described({ extent: "index", parameters: { bit: 30 } }, [0, 3]);
  assert.deepEqual(requestOf(store, 2).elements, { index: [0, 3] });
  assert.equal(faultText(store), "bitflip(bit=30) on element [0, 3], step 0"); // bfloat16 has none
  store.ui.form.parameters.bit = 14;
  assert.equal(faultText(store), "bitflip(bit=14 (exponent)) on element [0, 3], step 0");
});

test("what is left empty is not sent; ranks, micro batches and the rest are", () => {
  const full = { probability: "0.5", times: "3", scope: "storage", ranks: "1-3", micro_batches: " 0 ", steps: " 2,5- " };
  const { probability, times, scope, ranks, micro_batches, steps } = requestOf(described(full), 2);
  assert.deepEqual([probability, times, scope, ranks, micro_batches, steps], [0.5, 3, "storage", "1-3", "0", "2,5-"]);
  assert.match(faultText(described(full)), /steps 2,5-, probability 0.5, at most 3 times, micro batch 0, ranks 1-3, scope storage$/);
});

test("every call is the operator's name alone", () => {
  assert.equal(requestOf(described({ calls: "every" }), 2).site, "mm");
  assert.match(faultText(described({ calls: "every" })), /drawn element, every call, step 0$/);
});

test("regions are told in words", () => {
  const text = (extent, given) => faultText(described({ extent, extentText: JSON.stringify(given) })).split(" on ")[1];
  assert.equal(text("block", { shape: [3, 3], at: [0, 2, 0, 0] }), "block of 3 × 3 at [0, 2, 0, 0], step 0");
  assert.equal(text("run", { length: 16, start: 4 }), "run of 16 from 4, step 0");
  assert.equal(text("block", { shape: [3, 3] }), "block of 3 × 3, step 0");
  assert.equal(text("run", { length: 4 }), "run of 4, step 0");
  assert.equal(text("row", 3), "row 3, step 0");
  assert.equal(text("row", [5, 7]), "row 5, 7, step 0");
  assert.equal(text("slice", "-1"), "slice -1, step 0");
  assert.equal(text("where", "abs(x) > 1"), "where abs(x) > 1, step 0");
});

test("steps are told as every step, one or several", () => {
  for (const [steps, told] of [["", "step 0"], ["0-", "every step"], ["3", "step 3"], ["5-7", "steps 5-7"]]) {
    assert.equal(faultText(described({ steps })), `bitflip on 1 drawn element, ${told}`);
  }
});

test("what cannot be read is told at its field, and nothing else is sent in its place", () => {
  const wrong = { probability: "50%", times: "abc", seed: "-1", steps: "5-2", ranks: "all", micro_batches: "0:2" };
  for (const [field, text] of Object.entries(wrong)) {
    const store = described({ [field]: text });
    const [problem, ...others] = readForm(store, 2).problems;
    assert.deepEqual([problem.field, problem.missing, others.length], [field, false, 0]);
    assert.ok(problem.text.startsWith(`'${text}' cannot be: `), problem.text);
    assert.throws(() => requestOf(store, 2), { message: problem.said });
  }
  assert.throws(() => requestOf(described({ times: "abc" }), 2), /^Error: times at most: 'abc' cannot be: type a whole number from 1/);
});

test("a typed index that is none is told, and no older element is struck", () => {
  const store = described({ extent: "index" });
  store.ui.elementText = "0, 99";
  const [problem] = readForm(store, 2).problems;
  assert.deepEqual([problem.field, problem.missing], ["elements", false]);
  assert.match(problem.said, /^index: '0, 99' cannot be/);
  assert.equal(faultText(store), "bitflip on one element, not yet chosen, step 0");
});

test("what is not given yet is missing, not wrong", () => {
  assert.equal(readForm(described({ extent: "index" }), 2).problems[0].missing, true);
  assert.equal(readForm(described({ extent: "fraction", extentText: "" }), 2).problems[0].said, "fraction: type a number from 0 to 1, such as 0.01");
});

test("one of several parameters is missing until one is given", () => {
  const bit = { name: "bit", type: "ints", choices: [] };
  const store = described({ model: "stuck_at_0", parameters: {} });
  store.hello = { models: [{ name: "stuck_at_0", parameters: [bit], needs: "give either bit or field" }] };
  const [problem, ...others] = readForm(store, 2).problems;
  assert.deepEqual([problem.text, problem.missing, others.length], ["give either bit or field", true, 0]);
  store.ui.form.parameters.bit = "3";
  assert.deepEqual(requestOf(store, 2).parameters, { bit: 3 });
});

test("a tensor without elements can hold no fault", () => {
  const store = described({});
  store.trace.data.shapes[1] = [0, 3];
  assert.throws(() => requestOf(store, 2), { message: "the tensor has no element, so that no fault can strike it" });
});

test("whole numbers beyond 2**53 are sent in full", () => {
  assert.equal(requestOf(described({ seed: "9007199254740993" }), 2).seed, "9007199254740993");
  assert.equal(requestOf(described({ seed: "9007199254740991" }), 2).seed, 9007199254740991);
  assert.throws(() => requestOf(described({ seed: "9223372036854775808" }), 2), /below 2\*\*63/);
});

test("parameters are read by their types", () => {
  const factor = { name: "factor", type: "value", required: true, choices: [] };
  const scale = (text) => {
    const store = described({ model: "scale", parameters: text === null ? {} : { factor: text } });
    store.hello = { models: [{ name: "scale", parameters: [factor] }] };
    return store;
  };
  assert.deepEqual(requestOf(scale("1.5"), 2).parameters, { factor: 1.5 });
  assert.deepEqual(requestOf(scale("-Inf"), 2).parameters, { factor: "-inf" });
  assert.throws(() => requestOf(scale("1e400"), 2), /factor: '1e400' cannot be: it is more than float64 holds/);
  assert.throws(() => requestOf(scale(null), 2), /^Error: factor: type a number such as 0.5/);
  assert.equal(faultText(scale("1e400")), 'scale(factor="1e400") on 1 drawn element, step 0');
});

test("what Arm arms at is named", () => {
  assert.equal(targetText(described({}), 2), "mm*2:0");
  assert.equal(targetText(described({ calls: "every" }), 2), "every mm");
});

test("a plan's faults are counted alike everywhere", () => {
  const plan = (...on) => planText(on.map((enabled) => ({ enabled })));
  assert.deepEqual([plan(), plan(true), plan(true, true), plan(false), plan(false, false), plan(true, false, true)],
    ["no fault armed", "1 fault armed", "2 faults armed", "1 fault, switched off", "2 faults, switched off", "2 faults armed, 1 off"]);
});

test("a fault's line tells of its trigger what is not the default", () => {
  const usual = { probability: 1, times: null, micro_batches: null, ranks: null, scope: "value" };
  assert.deepEqual(triggerTexts(usual), []);
  assert.deepEqual(triggerTexts({ ...usual, probability: 0, times: 1, micro_batches: "0,2", ranks: "1-3", scope: "storage" }),
    ["probability 0", "at most 1 time", "micro batches 0,2", "ranks 1-3", "scope storage"]);
});

test("a fault's line tells of its filters", () => {
  assert.deepEqual(triggerTexts({ filters: { phases: ["forward", "loss"], modules: [], code: ["run.py[83]"] } }),
    ["phases forward, loss", "modules none", "code run.py[83]"]);
});

test("a plan as code arms what is on, and replays it for so many steps in the person's session", () => {
  const faults = [
    { enabled: true, code: "fi_session.arm('relu*2:0', 'nan')" },
    { enabled: false, code: "fi_session.arm('mm*1:0', 'zero')" },
  ];
  assert.equal(planCode({ faults, session: "fi_session" }, 6),
    "fi_session.arm('relu*2:0', 'nan')\nrun = fi_session.replay(steps=6)\nprint(run.outcome)");
});
