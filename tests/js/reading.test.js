import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { elementIndex, elementsOf, parameterValue, realNumber, sendable, fractionOf, stepsOf, wholeIn, wholeNumber } from "../../fi_notebook/assets/explorer/reading.js";

const refused = (read, texts, said = /^'.*' cannot be: /) => {
  for (const text of texts) assert.throws(() => read(text), { message: said }, text);
};

test("one element is read as Python reads it: coordinates, brackets, a flat index, from the end", () => {
  const shape = [6, 8, 4, 4];
  for (const text of ["0, 3, 1, 2", "[0, 3, 1, 2]", "(0,3,1,2)", "0,3,1,2,", " -6 , -5, +1, -2 ", "54", "-714", '{"index": [0, 3, 1, 2]}', "{'index': 54}"]) {
    assert.deepEqual(elementIndex(text, shape), [0, 3, 1, 2], text); // 3 × 16 + 1 × 4 + 2 = 54 of 768
  }
  assert.deepEqual(elementIndex("5", [8]), [5]);
  assert.deepEqual(elementIndex("[-1]", [8]), [7]);
});

test("what is no index is refused with what would be one", () => {
  const read = (text) => elementIndex(text, [6, 8, 4, 4]);
  refused(read, ["abc", "0,3", "0, 3, 1, 2, 0", "1.0", "1e0", "0x1", "0;3;1;2", "[5]", "--1", "0, , 1, 2", "[0, 3, 1, 2)", "5,", ",", "٣"],
    /type 4 indices such as 0, 0, 0, 0, or a flat index from 0 to 767$/);
  refused(read, ["999, 0, 0, 0", "-7,0,0,0"], /dimension 0 is 0 to 5, or negative from the end$/);
  refused(read, ["768", "-769", "99999999999999999999"], /the flat index is 0 to 767/);
  refused(read, ["[[0,3,1,2]]", "[[0, 3, 1, 2], [1, 0, 0, 0]]"], /one element only/);
  refused((text) => elementIndex(text, [0, 3]), ["0, 0"], /the tensor has no element/);
});

test("a scalar has one element: [], nothing or 0", () => {
  for (const text of ["[]", "", " ", "0", "-1", "()"]) assert.deepEqual(elementIndex(text, []), [], text);
  refused((text) => elementIndex(text, []), ["[0]", "0, 0", "x"], /a scalar has one element: type \[\] or 0/);
});

test("whole numbers are exact, whatever their size", () => {
  assert.equal(wholeNumber("9007199254740993", ""), 9007199254740993n);
  assert.equal(wholeNumber("-9007199254740993", ""), -9007199254740993n);
  assert.equal(wholeNumber("007", ""), 7);
  assert.deepEqual(sendable({ a: [1n, 2], b: { c: 3n } }), { a: ["1", 2], b: { c: "3" } });
  refused((text) => wholeNumber(text, "type one", 0n), ["abc", "1.0", "1e3", "-1", "0x10", "1_000", "9223372036854775808"]);
});

test("a real number is what float64 holds, or refused", () => {
  assert.deepEqual(["0.5", ".5", "5.", "1e-3", "+2", "-0.0", "0e0"].map((text) => realNumber(text, "")), [0.5, 0.5, 5, 0.001, 2, -0, 0]);
  assert.equal(realNumber("123456789012345678901", ""), 123456789012345678901n);
  refused((text) => realNumber(text, "type one"), ["abc", "50%", "NaN", "inf", "1/2", "0x1", "1,5", "1e", ""].filter(Boolean));
  refused((text) => realNumber(text, "type one"), ["1e-400", "-0.1e-999"], /so small that float64 makes it 0/);
  refused((text) => realNumber(text, "type one"), ["1e400", "-9e999"], /more than float64 holds/);
  refused((text) => fractionOf(text, "type one"), ["1.01", "-0.1", "2", "-1", "99999999999999999999"]);
  assert.deepEqual(["0", "1", "0.25"].map((text) => fractionOf(text, "")), [0, 1, 0.25]);
});

test("steps are read as Python reads them", () => {
  for (const text of ["0", "2,5-7,10-", "0-100:10", " 1 - 3 , 8 "]) assert.equal(stepsOf(text, ""), text);
  refused((text) => stepsOf(text, "type some"), ["x", "1,", "-1", "1:2", "0-9:0", "3-1", "1.5", "1234567890123456789"]);
});

test("each type of parameter", () => {
  const value = (type, text, more = {}) => parameterValue({ type, ...more }, text);
  assert.deepEqual([value("int", " 30 "), value("ints", "1, 4"), value("ints", "[2]"), value("ints", "5")], [30, [1, 4], [2], 5]);
  assert.deepEqual([value("mask", "0x8000"), value("mask", "3"), value("float", "1e-3"), value("value", "Infinity"), value("value", "+nan")],
    ["0x8000", 3, 0.001, "inf", "nan"]);
  assert.deepEqual([value("bool", "true"), value("str", "negate"), value("mapping", "{'factor': 2}")], [true, "negate", { factor: 2 }]);
  assert.deepEqual(["false", "element"].map((text) => value("choice", text, { choices: [false, true, "element"] })), [false, "element"]);
  assert.deepEqual([value("int", ""), value("int", undefined), value("int", 30), value("value", true)], [undefined, undefined, 30, true]);
  for (const [type, text] of [["int", "abc"], ["ints", "1, x"], ["mask", "0xz"], ["float", "nan"], ["value", "> 1"], ["mapping", "[1]"], ["choice", "x"]]) {
    assert.throws(() => value(type, text), /cannot be: /, type);
  }
  assert.throws(() => value("int", "", { required: true }), /^Error: type a whole number/);
});

test("each selection takes what its box says", () => {
  const of = (name, text) => elementsOf(name, text)[name];
  assert.deepEqual([elementsOf("all", ""), elementsOf("nonzero", "")], ["all", "nonzero"]);
  assert.deepEqual(["0", "-1", '"0"', "'..., ::2'", "[0, :, 3:7]"].map((text) => of("slice", text)), ["0", "-1", "0", "..., ::2", "[0, :, 3:7]"]);
  assert.deepEqual([of("row", "-1"), of("row", "0, 2"), of("column", '"any"'), of("channel", "ANY")], [-1, [0, 2], "any", "any"]);
  assert.deepEqual([of("tile", "4, 4"), of("tile", "[4, 4]"), of("block", '{"shape": [2, 2], "at": [0, 0]}')], [[4, 4], [4, 4], { shape: [2, 2], at: [0, 0] }]);
  assert.deepEqual([of("run", "16"), of("strided", "{'period': 32, 'offset': 3}"), of("where", "> 0.5"), of("where", '"nan"'), of("top", "5")],
    [16, { period: 32, offset: 3 }, "> 0.5", "nan", 5]);
  assert.deepEqual([of("fraction", "0.01"), of("fraction", "{'fraction': 0.01}"), of("count", "0")], [0.01, 0.01, 0]);
});

const TEXTS = JSON.parse(readFileSync(new URL("../faults/element_texts.json", import.meta.url), "utf-8"));
for (const [name, texts] of Object.entries(TEXTS)) {
  test(`${name}: what the kernel reads is sent, and what it refuses is refused here`, () => {
    for (const [typed, sent] of Object.entries(texts)) {
      if (sent === null) assert.throws(() => elementsOf(name, typed), { message: /type a / }, typed);
      else assert.deepEqual(elementsOf(name, typed), { [name]: sent }, typed);
    }
  });
}

test("a slice that Python refuses is refused", () => {
  refused((text) => elementsOf("slice", text), ["0, ", "x", "1:2:0", "1::-0", "..., 0, ...", "1 2", "0x1"]);
  assert.equal(elementsOf("slice", "::10, 1:2:03").slice, "::10, 1:2:03");
});

test("a refused selection says what to type in this box, not what to write in Python", () => {
  for (const name of ["count", "top", "fraction", "slice", "where", "run", "strided", "row", "column", "channel", "tile", "block"]) {
    for (const text of ["", "abc", "1e400", "{", "> abc"]) {
      assert.throws(() => elementsOf(name, text), (error) => /type /.test(error.message) && !/elements \{|4611686018427387904|None/.test(error.message), `${name} ${text}`);
    }
  }
});

test("a box holds a whole number, or NaN", () => {
  assert.deepEqual([wholeIn(3), wholeIn(" 30 "), wholeIn("3.5"), wholeIn(undefined), wholeIn([1])], [3, 30, NaN, NaN, NaN]);
});
