import assert from "node:assert/strict";
import { test } from "node:test";
import { clip, count, exact, number, short, typed } from "../../fi_notebook/assets/explorer/numbers.js";

test("numbers are shown in four significant digits", () => {
  assert.equal(short(3.14159), "3.142");
  assert.equal(short(0.00012345), "1.234e−4");
  assert.equal(short(123456.7), "1.235e5");
  assert.equal(short(-2), "−2");
  assert.equal(short(-0), "−0");
});

test("NaN and the infinities are told apart, as numbers and as the text of JSON", () => {
  assert.equal(short(NaN), "NaN");
  assert.equal(short("nan"), "NaN");
  assert.equal(short("inf"), "+Inf");
  assert.equal(short("-inf"), "−Inf");
  assert.equal(number("-inf"), -Infinity);
  assert.equal(exact("inf"), "inf");
});

test("complex values stay text", () => assert.equal(short("(1+2j)"), "(1+2j)"));

test("the exact form is Python's", () => {
  assert.equal(exact(0.1), "0.1");
  assert.equal(exact(-0), "-0.0");
});

test("thousands are set apart", () => assert.equal(count(1234567), "1\u2009234\u2009567"));

test("a long name is shown by its two ends", () => {
  const shown = clip("a".repeat(500) + "z".repeat(500), 100);
  assert.ok(shown.length <= 101);
  assert.ok(shown.startsWith("aaa") && shown.endsWith("zzz"));
});

test("what a person types becomes what the kernel expects", () => {
  assert.equal(typed("int", " 30 "), 30);
  assert.equal(typed("int", ""), null);
  assert.equal(typed("value", "nan"), "nan");
  assert.equal(typed("float", "1e-3"), 0.001);
  assert.equal(typed("mask", "0x8000"), 32768);
  assert.equal(typed("bool", "true"), true);
  assert.deepEqual(typed("ints", "[1, 2]"), [1, 2]);
  assert.equal(typed("value", "> 0.5"), "> 0.5");
});
