import assert from "node:assert/strict";
import { test } from "node:test";
import { clip, count, exact, farText, number, pairText, shareText, short, toldApart } from "../../fi_notebook/assets/explorer/numbers.js";

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
  assert.equal(short("inf"), "Inf");
  assert.equal(short("-inf"), "−Inf");
  assert.equal(number("-inf"), -Infinity);
  assert.equal(exact("inf"), "inf");
});

test("a complex number is shown by its parts, and exactly on hover", () => {
  assert.equal(short("(1+2j)"), "1+2j");
  assert.equal(short("1j"), "0+1j");
  assert.equal(short("(0.123456789012-4.98765432101j)"), "0.1235−4.988j");
  assert.equal(short("(nan-infj)"), "NaN−Infj");
  assert.equal(exact("(0.123456789012-4.98765432101j)"), "(0.123456789012-4.98765432101j)");
});

test("two numbers are shown in as many digits as it takes to see that they differ", () => {
  assert.deepEqual(toldApart(-0.8067123, -0.8067124), ["−0.8067123", "−0.8067124"]);
  assert.deepEqual(toldApart(1, 1.0000000178), ["1", "1.00000002"]);
  assert.deepEqual(toldApart(2.5, 3), ["2.5", "3"]);
  assert.deepEqual(toldApart("(1.00001+2j)", "(1.00002+2j)"), ["1.00001+2j", "1.00002+2j"]);
  assert.deepEqual(toldApart(NaN, NaN), ["NaN", "NaN"]);
  assert.deepEqual(toldApart("nan", 2.5), ["NaN", "2.5"]);
});

test("whole numbers of integer tensors are shown in full", () => {
  assert.deepEqual(pairText(33554433, -33554433, "int32"), ["33,554,433", "−33,554,433"]);
  assert.deepEqual(pairText(18014398509481985n, 18014398509481984n, "int64"),
    ["18,014,398,509,481,985", "18,014,398,509,481,984"]);
  assert.deepEqual(pairText(33554432, 33554432, "float32"), ["3.355e7", "3.355e7"]);
});

test("to NaN and Inf there is no distance", () => {
  assert.equal(farText(2.301, "nan", 0), "–");
  assert.equal(farText(159.3, "inf", 0), "–");
  assert.equal(farText("nan", 2, 0), "–");
  assert.equal(farText(2, 3, 0.5), "0.5");
});

test("the exact form is Python's", () => {
  assert.equal(exact(0.1), "0.1");
  assert.equal(exact(-0), "-0.0");
});

test("thousands are set apart by commas", () => assert.equal(count(1234567), "1,234,567"));

test("a share of what is there is never none, nor all of less", () => {
  const texts = [[0, 9], [1, 300_000], [1, 2], [299_999, 300_000], [9, 9]].map(([part, whole]) => shareText(part, whole));
  assert.deepEqual(texts, ["0\u00a0%", "<0.1\u00a0%", "50\u00a0%", ">99.9\u00a0%", "100\u00a0%"]);
});

test("a long name is shown by its two ends", () => {
  const shown = clip("a".repeat(500) + "z".repeat(500), 100);
  assert.ok(shown.length <= 101);
  assert.ok(shown.startsWith("aaa") && shown.endsWith("zzz"));
});
