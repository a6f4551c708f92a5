import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuery, search } from "../../fi_notebook/assets/explorer/search.js";
import { NO_FACTS, trace } from "./step.mjs";

/** Rows that a search finds in the small step. */
function rows(text, facts = NO_FACTS) {
  const mask = search(trace(), parseQuery(text), facts);
  return [...mask.keys()].filter((row) => mask[row]);
}

const CASES = {
  "op:mm": [0, 2],
  "op:mm*2": [2],
  "op:mm_*": [3, 4],
  "mm": [0, 2, 3, 4],
  "RELU": [1],
  "relu*1:0": [1],
  "phase:back": [3, 4],
  "module:fc1": [0, 1, 2, 3, 4],
  "module:fc1.inner": [2, 3, 4],
  "module:tied": [0, 1],
  "code:3": [0, 1, 2, 3, 4],
  "code:net.py:9": [2, 3, 4],
  "code:net.py[9]": [2, 3, 4],
  'code:"in [5]:3"': [0, 1, 2, 3, 4],
  "dtype:bfloat16": [2, 3, 4],
  "bad:nan": [3],
  "bad:inf": [4],
  "bad:": [3, 4],
  "armed:": [1],
  "armed:f2": [],
  "-op:mm phase:forward": [1, 5],
  "op:mm module:fc1.inner": [2],
  're:"^fc1 (mm|relu)"': [0, 1],
  "re:^fc1.inner": [2, 3, 4],
  "is:folded": [5],
  "is:coll": [],
  "-is:fold op:*": [0, 1, 2, 3, 4],
};

for (const [text, wanted] of Object.entries(CASES)) {
  test(`search ${text}`, () => assert.deepEqual(rows(text), wanted));
}

test("an effect is searched once there was a replay", () => {
  const facts = { ...NO_FACTS, effect: Uint8Array.of(0, 1, 2, 2, 2, 0), effects: ["equal", "introduced", "amplified"] };
  assert.deepEqual(rows("effect:introduced", facts), [1]);
  assert.deepEqual(rows("effect:introduced"), []);
});

test("an unknown field is plain text", () => {
  assert.deepEqual(parseQuery("c10d::all foo:bar").map((term) => term.field), ["", ""]);
});

test("a pattern that cannot be read is an error, not a hang", () => {
  assert.throws(() => rows("re:("), new SyntaxError("re:( is no pattern: unterminated group"));
});

test("a search may hold any characters of regular expressions", () => {
  assert.deepEqual(rows("op:m.m"), []);
  assert.deepEqual(rows("op:(((["), []);
});

test("a mark or an effect of two words needs no quotes", () => {
  const effects = ["equal", "passed on"];
  const read = (text) => parseQuery(text, [...trace().data.flags, ...effects]).map(({ field, value }) => [field, value]);
  for (const text of ["is:in place relu", 'is:"in place" relu', "is:in_place relu", "is:IN PLACE  relu"]) {
    assert.deepEqual(read(text).map(([field, value]) => [field, value.toLowerCase()]), [["is", "in place"], ["", "relu"]], text);
  }
  assert.deepEqual(read("-effect:passed on"), [["effect", "passed on"]]);
  assert.deepEqual(read("effect:passed on2"), [["effect", "passed"], ["", "on2"]]);
  assert.deepEqual(read("op:passed on"), [["op", "passed"], ["", "on"]]);
});

test("bad: finds the kinds that begin so, and none of an unknown one", () => {
  assert.deepEqual([rows("bad:n"), rows("bad:INF"), rows("bad:foo")], [[3], [4], []]);
});
