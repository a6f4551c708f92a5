import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuery, search } from "../../fi_notebook/assets/explorer/search.js";
import { NO_FACTS, trace } from "./step.mjs";

const ROUNDS = 20000;
const PARTS = ["op:", "module:", "code:", "re:", "bad:", "armed:", "is:", "effect:", "phase:", "x:",
  "-", "*", "?", "[", "]", "(", ")", "{1,9}", "\\", "\"", ":", " ", "\n", "\0", "mm", "fc1", "f1", "3",
  "99999999999999999999", "$", "^", "é", "\u{1F600}", "\u2028", "__proto__", "constructor", "<img>"];

/** Numbers from 0 to 1, the same in every run. */
function generator(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

test("any text is a search, or a pattern that cannot be read", () => {
  const step = trace();
  const before = JSON.stringify(step.data);
  const draw = generator(7);
  for (let round = 0; round < ROUNDS; round += 1) {
    const length = 1 + Math.floor(draw() * 8);
    const text = Array.from({ length }, () => PARTS[Math.floor(draw() * PARTS.length)]).join("");
    try {
      const mask = search(step, parseQuery(text), NO_FACTS);
      assert.ok(mask.length === step.size && mask.every((chosen) => chosen <= 1), text);
    } catch (error) {
      assert.ok(error instanceof SyntaxError && text.toLowerCase().includes("re:"), `${text}: ${error}`);
    }
  }
  assert.equal(JSON.stringify(step.data), before);
});

test("a text of a hundred thousand characters, and a glob of many stars, are done at once", () => {
  const step = trace();
  step.data.ops[0] = "a".repeat(200);
  for (const text of ["a".repeat(1e5), " ".repeat(1e5), "-".repeat(1e5), "\"".repeat(1e5), "a:".repeat(5e4),
    `op:${"*a".repeat(60)}*b`, `module:${"*".repeat(5000)}b`]) {
    assert.equal(search(step, parseQuery(text), NO_FACTS).length, step.size);
  }
});

for (const pattern of ["(a+)+$", "(a*)*b", "(?:a|ab)*c", "((a+)b)+", "(x(y{2,}))*", "(?<n>a+)+", "(a+){9,}", "(.?.)+Z",
  "(?:[a-z.]?[a-z.0-9])+!", "([a-z]{2,3})*", "((a|b))+"]) {
  test(`${pattern} may take for ever, and is refused`, () => {
    assert.throws(() => search(trace(), parseQuery(`re:${pattern}`), NO_FACTS), /SyntaxError: a repeat around/);
  });
}

for (const pattern of ["(mm)+", "m+.*", "[(+]+", "\\(+", "a(b|c)", "(a+)b", "(a+)?", "^mm\\*\\d+$", "a{2,}", "(a)(b+)",
  "(\\w+\\.){2}", "(?:mm|relu){1}", "(?:a{2}){3}", "a|b|c|d|e|f|g|h", "[a-z]+\\.[a-z]+\\.[0-9]+\\.[a-z]+", "(mm|relu)",
  "(?<=m)m", "\\(a+\\)+", "[*+?]+", "(?:re)?lu", "a{", "{"]) {
  test(`${pattern} is a pattern like any other`, () => {
    assert.equal(search(trace(), parseQuery(`re:${pattern}`), NO_FACTS).length, trace().size);
  });
}

test("more than five repeats are refused, and five that take long are given up", () => {
  const step = trace();
  step.data.ops = step.data.ops.map(() => "a".repeat(80));
  const find = (pattern) => () => search(step, parseQuery(`re:${pattern}`), NO_FACTS);
  for (const many of ["a*".repeat(6), `${".?".repeat(30)}!`, `${".{0,50}".repeat(8)}!`, "(?:.?){30}!", "(a|ab){30}c"]) {
    assert.throws(find(many), /more than 5 repeats/);
  }
  assert.throws(find(`${"a*".repeat(5)}!`), /takes too long/);
});

const GLOBS = {
  "mm": [0, 2], "*": [0, 1, 2, 3, 4, 5], "m*": [0, 2, 3, 4], "*m": [0, 2], "m*m": [0, 2], "mm*mm": [],
  "m**m": [0, 2], "*_b*w*d": [3, 4], "": [], "*.*": [],
};
for (const [glob, wanted] of Object.entries(GLOBS)) {
  test(`glob ${glob}`, () => {
    const mask = search(trace(), [{ field: "op", value: glob, negate: false }], NO_FACTS);
    assert.deepEqual([...mask.keys()].filter((row) => mask[row]), wanted);
  });
}
