import assert from "node:assert/strict";
import { test } from "node:test";
import { hintOf } from "../../fi_notebook/assets/explorer/hints.js";
import { parseQuery } from "../../fi_notebook/assets/explorer/search.js";
import { NO_FACTS, trace } from "./step.mjs";

const REPLAYED = { ...NO_FACTS, effect: new Uint8Array(6), effects: ["equal", "introduced", "amplified"] };
const hint = (text, facts = REPLAYED) => hintOf(trace(), parseQuery(text), facts);

test("an unknown field is named, with those that there are", () => {
  assert.equal(hint("relu foo:bar"),
    "no site fits: there is no field foo:; known are op:, phase:, module:, code:, dtype:, bad:, armed:, effect:, is:, re:");
  assert.match(hint("modul:fc1"), /there is no field modul:, did you mean module:\? Known are op:/);
});

test("effects need a replay", () => {
  assert.equal(hint("effect:amplified", NO_FACTS), "no site fits: effects are known after a replay; press Replay first");
  assert.equal(hint("effect:amplified"), "");
});

test("nothing can be armed: where nothing is", () => {
  const free = { ...REPLAYED, armed: new Map() };
  assert.equal(hint("armed:", free), "no site fits: nothing is armed");
  assert.equal(hint("-armed:", free), "");
  assert.equal(hint("armed: phase:loss"), "");
});

test("an unknown phase, mark or effect is named", () => {
  assert.match(hint("phase:bakward"), /there is no phase bakward, did you mean backward\? Known are forward/);
  assert.match(hint("is:kollective"), /there is no mark kollective, did you mean collective\?/);
  assert.match(hint("effect:x"), /there is no effect x; known are equal, introduced, amplified/);
});

test("the longer names of operators that fit the rest are named, with their calls", () => {
  const said = "no site fits: no call of mm does; mm_backward has 1 call: op:mm*";
  for (const text of ["op:mm phase:backward", "op:mm*2 phase:back"]) assert.equal(hint(text), said);
  assert.equal(hint("op:mm_back"), "no site fits: no call of mm_back does; mm_backward has 1 call: op:mm_back*");
  for (const text of ["op:mm phase:loss", "-op:mm phase:backward", "op:m*m phase:backward", "op:relu phase:backward"]) assert.equal(hint(text), "");
});

test("an operator is no beginning of another", () => {
  const step = trace();
  step.data.ops[2] = "mmul";
  assert.equal(hintOf(step, parseQuery("op:mm phase:backward"), REPLAYED), "");
});

test("what may well be text is left alone", () => {
  for (const text of ["relu", "aten::mm", '"foo:bar"', "op:nothing", "-effect:equal", "", "x".repeat(1e5)]) assert.equal(hint(text), "");
});

test("an unknown operator is told with those that have its name within theirs, or the nearest", () => {
  assert.equal(hint("op:backward"), "no site fits: there is no operator backward; op:*backward* finds mm_backward");
  assert.equal(hint("op:reluu"), "no site fits: there is no operator reluu, did you mean relu?");
});

test("a call or an output past the last is told with how many there are", () => {
  for (const text of ["relu*9:0", "op:relu*9", "op:RELU*2:0"]) assert.equal(hint(text), "no site fits: relu has 1 call");
  assert.equal(hint("mm_backward*1:2"), "no site fits: mm_backward*1 has 2 outputs");
});

test("an unknown module, dtype, kind of bad value or fault is told with what there is", () => {
  assert.equal(hint("module:fc2"), "no site fits: there is no module fc2, did you mean fc1?");
  assert.equal(hint("module:encoder"), "no site fits: there is no module encoder");
  assert.equal(hint("dtype:bf16"), "no site fits: there is no dtype bf16; known are float32, bfloat16");
  assert.equal(hint("bad:foo"), "no site fits: there is no kind of bad value foo; known are nan, inf");
  assert.equal(hint("armed:f9"), "no site fits: there is no armed fault f9, did you mean f1? Known are f1");
});

test("a stored tensor is said to be armed in Python", () => {
  assert.equal(hint("param:head.weight"),
    'no site fits: param:head.weight is a stored tensor, no call: arm it with session.arm("param:head.weight", …)');
});
