import assert from "node:assert/strict";
import { test } from "node:test";
import { bitsText, changedBits, decodeBits, fieldOf, fieldsOf, fieldWords, hexText, ulps, undrawnText, wholeValue, width } from "../../fi_notebook/assets/explorer/bits.js";

/** Bits of 1.0 and what flipping one of them gives. */
const ONE = {
  float32: [0x3f800000n, { 31: -1, 30: Infinity, 29: 5.421010862427522e-20, 28: 2.3283064365386963e-10, 27: 1.52587890625e-5, 26: 0.00390625, 25: 0.0625, 24: 0.25, 23: 0.5, 22: 1.5, 21: 1.25, 20: 1.125 }],
  bfloat16: [0x3f80n, { 15: -1, 14: Infinity, 13: 5.421010862427522e-20, 10: 0.00390625, 7: 0.5, 6: 1.5, 0: 1.0078125 }],
  float16: [0x3c00n, { 15: -1, 14: Infinity, 13: 0.00390625, 10: 0.5, 9: 1.5, 0: 1.0009765625 }],
  float8_e4m3fn: [0x38n, { 7: -1, 6: 256, 5: 0.0625, 4: 0.25, 3: 0.5, 2: 1.5, 1: 1.25, 0: 1.125 }],
  float8_e5m2: [0x3cn, { 7: -1, 6: Infinity, 5: 0.00390625, 4: 0.0625, 3: 0.25, 2: 0.5, 1: 1.5, 0: 1.25 }],
};

for (const [dtype, [bits, flips]] of Object.entries(ONE)) {
  test(`flipping one bit of 1.0 in ${dtype} gives the known value`, () => {
    assert.equal(decodeBits(dtype, bits), 1);
    for (const [bit, value] of Object.entries(flips)) {
      assert.equal(decodeBits(dtype, bits ^ (1n << BigInt(bit))), value, `bit ${bit}`);
    }
  });
}

test("zero with its top exponent bit is 2 in every IEEE float, and its sign bit is -0", () => {
  for (const dtype of Object.keys(ONE)) {
    assert.equal(decodeBits(dtype, 1n << BigInt(width(dtype) - 2)), 2, dtype);
    assert.ok(Object.is(decodeBits(dtype, 1n << BigInt(width(dtype) - 1)), -0), dtype);
  }
});

test("float64 and float32 bits are read as the machine reads them", () => {
  const view = new DataView(new ArrayBuffer(8));
  for (const x of [1, -0.75, 5e-324, 2.5e-310, 1.7976931348623157e308, Math.PI]) {
    view.setFloat64(0, x);
    assert.equal(decodeBits("float64", view.getBigUint64(0)), x);
    view.setFloat32(0, x);
    assert.equal(decodeBits("float32", BigInt(view.getUint32(0))), view.getFloat32(0));
  }
});

test("NaN of e4m3fn is one pattern only, so 0x7e is still a number", () => {
  assert.ok(Number.isNaN(decodeBits("float8_e4m3fn", 0x7fn)));
  assert.equal(decodeBits("float8_e4m3fn", 0x7en), 448);
});

test("integers are two's complement, bool is any bit", () => {
  assert.equal(decodeBits("int8", 0x80n), -128);
  assert.equal(decodeBits("uint8", 0x80n), 128);
  assert.equal(decodeBits("bool", 2n), 1);
  assert.equal(width("bool"), 1);
  assert.equal(hexText("1", "bool"), "0x1");
});

test("every bit has a field", () => {
  assert.equal(fieldOf("float32", 31), "sign");
  assert.equal(fieldOf("float32", 30), "exponent");
  assert.equal(fieldOf("float32", 23), "exponent");
  assert.equal(fieldOf("float32", 22), "mantissa");
  assert.equal(fieldOf("int32", 31), "sign");
  assert.equal(fieldOf("uint8", 7), "value");
});

test("differing bits are named, highest first", () => {
  const bits = changedBits(0x3f800000n, 0xbf800001n);
  assert.deepEqual(bits, [31, 0]);
  assert.equal(bitsText("float32", bits), "bit 31 (sign), bit 0 (mantissa)");
  assert.equal(bitsText("float32", []), "no bit");
  assert.equal(hexText("3f8", "float32"), "0x000003f8");
});

test("ULPs count the values between two words, across zero too", () => {
  assert.equal(ulps("float32", 0x3f800000n, 0x3f900000n), 2 ** 20);
  assert.equal(ulps("float32", 0x00000001n, 0x80000002n), 3);
  assert.equal(ulps("bfloat16", 0n, 0x8000n), 0);
  assert.equal(ulps("float16", 0x7bffn, 0x7c00n), 1);
  assert.equal(ulps("float8_e8m0fnu", 0x7fn, 0x81n), 2); // 2**0 to 2**2, a format without a sign
  assert.equal(ulps("float32", 0n, 0x7fffffffn), null);
  assert.equal(ulps("int32", 1n, 2n), null);
});

test("an integer is read from its bits in full, of either sign", () => {
  assert.equal(wholeValue("int64", "40000000000001", 1.801e16), 18014398509481985n);
  assert.equal(wholeValue("int32", "ffffffff", -1), -1n);
  assert.equal(wholeValue("uint8", "ff", 255), 255n);
  assert.equal(wholeValue("float32", "3f800000", 1), 1);
  assert.equal(wholeValue("complex64", null, "(1+2j)"), "(1+2j)");
});

test("the fields of bits stand behind their numbers, each once", () => {
  const cases = [["float32", 30, " (exponent)"], ["bfloat16", [15, 14, 7], " (sign, exponent)"], ["int8", 7, " (sign)"],
    ["complex64", 31, " (sign)"], ["float16", 30, ""], ["", 3, ""], ["float32", "30", ""], ["float32", [], ""], ["float32", undefined, ""]];
  for (const [dtype, bits, words] of cases) assert.equal(fieldWords(dtype, bits), words, `${dtype} ${bits}`);
});

test("the fields of a word are told with their bits, highest first", () => {
  const told = (dtype) => fieldsOf(dtype).map(([name, from, to]) => `${name} ${from}-${to}`).join(" ");
  assert.equal(told("float32"), "sign 31-31 exponent 30-23 mantissa 22-0");
  assert.equal(told("bfloat16"), "sign 15-15 exponent 14-7 mantissa 6-0");
  assert.equal(told("float8_e8m0fnu"), "exponent 7-0");
  assert.equal(told("int64"), "sign 63-63 value 62-0");
  assert.equal(told("bool"), "value 0-0");
});

test("where no bits are drawn, it is said where they are flipped", () => {
  assert.equal(undrawnText("complex64"), "A complex64 is two numbers: type a bit, and the part that holds it, into the form below.");
});
