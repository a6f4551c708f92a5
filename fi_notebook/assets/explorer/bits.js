/** The bits of an element, in every dtype but the complex ones: the layouts of `core/formats.py`. */

/** Sign, exponent and mantissa bits of each float dtype, and its bias. @type {Record<string, number[]>} */
export const FLOATS = {
  float64: [1, 11, 52, 1023], float32: [1, 8, 23, 127], float16: [1, 5, 10, 15], bfloat16: [1, 8, 7, 127],
  float8_e4m3fn: [1, 4, 3, 7], float8_e5m2: [1, 5, 2, 15], float8_e4m3fnuz: [1, 4, 3, 8], float8_e5m2fnuz: [1, 5, 2, 16],
  float8_e8m0fnu: [0, 8, 0, 127],
};

/** @type {Record<string, number>} */
const INTEGERS = {
  int8: 8, int16: 16, int32: 32, int64: 64, uint8: 8, uint16: 16, uint32: 32, uint64: 64, bool: 1,
};

/** The dtype of each part of a complex number. @type {Record<string, string>} */
const PARTS = { complex32: "float16", complex64: "float32", complex128: "float64" };

/** How many bits an element has; 0 where it has no bit lens. @param {string} dtype */
export function width(dtype) {
  const parts = FLOATS[dtype];
  return parts ? parts[0] + parts[1] + parts[2] : INTEGERS[dtype] ?? 0;
}

/** `sign`, `exponent`, `mantissa` or `value`. @param {string} dtype @param {number} bit */
export function fieldOf(dtype, bit) {
  const parts = FLOATS[dtype];
  if (!parts) return dtype.startsWith("int") && bit === width(dtype) - 1 ? "sign" : "value";
  if (bit >= parts[1] + parts[2]) return "sign";
  return bit >= parts[2] ? "exponent" : "mantissa";
}

/** The fields of a word, highest first: name, first and last bit. @param {string} dtype
 * @returns {[string, number, number][]} */
export function fieldsOf(dtype) {
  const fields = [];
  for (let bit = width(dtype) - 1; bit >= 0; bit -= 1) {
    const last = fields.at(-1);
    if (last?.[0] === fieldOf(dtype, bit)) last[2] = bit;
    else fields.push(/** @type {[string, number, number]} */ ([fieldOf(dtype, bit), bit, bit]));
  }
  return fields;
}

/** Why the bits of a dtype are not drawn, and where they are flipped. @param {string} dtype */
export function undrawnText(dtype) {
  return PARTS[dtype] ? `A ${dtype} is two numbers: type a bit, and the part that holds it, into the form below.`
    : `The bits of ${dtype} are not drawn: type a bit into the form below.`;
}

/** The value that these bits make. @param {string} dtype @param {bigint} bits */
export function decodeBits(dtype, bits) {
  const parts = FLOATS[dtype];
  if (!parts) return decodeInteger(dtype, bits);
  const [, exponentBits, mantissaBits, bias] = parts;
  const mantissa = Number(bits & ((1n << BigInt(mantissaBits)) - 1n));
  const top = (1 << exponentBits) - 1;
  const exponent = Number((bits >> BigInt(mantissaBits)) & BigInt(top));
  const negative = Boolean(bits >> BigInt(exponentBits + mantissaBits));
  const sign = negative ? -1 : 1;
  const scale = 2 ** mantissaBits;
  if (dtype.endsWith("fnuz")) { // "finite, NaN, unsigned zero": NaN is what would be -0
    if (negative && !exponent && !mantissa) return NaN;
  } else if (exponent === top && dtype.includes("fn")) { // "finite, NaN": all bits but the sign
    if (mantissa === scale - 1) return NaN;
  } else if (exponent === top) return mantissa ? NaN : sign * Infinity;
  if (exponent === 0 && mantissaBits) return sign * (mantissa / scale) * 2 ** (1 - bias);
  return sign * (1 + mantissa / scale) * 2 ** (exponent - bias);
}

/** @param {string} dtype @param {bigint} bits */
function decodeInteger(dtype, bits) {
  if (dtype === "bool") return bits ? 1 : 0;
  return Number(dtype.startsWith("int") ? BigInt.asIntN(width(dtype), bits) : bits);
}

/** The value of an integer in full, where a number of the page would round it.
 * @param {string} dtype @param {string | null} hex @returns {any} */
export function wholeValue(dtype, hex, value) {
  if (hex === null || !/^u?int/.test(dtype)) return value;
  const bits = BigInt(`0x${hex}`);
  return dtype.startsWith("int") ? BigInt.asIntN(width(dtype), bits) : bits;
}

/** The bits in which two words differ, highest first. @param {bigint} a @param {bigint} b */
export function changedBits(a, b) {
  const bits = [];
  for (let rest = a ^ b, bit = 0; rest; rest >>= 1n, bit += 1) if (rest & 1n) bits.unshift(bit);
  return bits;
}

/** The fields of bits as they stand behind their numbers: ` (exponent)`; "" where the dtype has no
 * such bit. @param {string} dtype @param {any} bits a bit, or several */
export function fieldWords(dtype, bits) {
  const numbers = [bits].flat();
  dtype = PARTS[dtype] ?? dtype;
  if (!numbers.length || !numbers.every((bit) => Number.isInteger(bit) && bit >= 0 && bit < width(dtype))) return "";
  return ` (${[...new Set(numbers.map((bit) => fieldOf(dtype, bit)))].join(", ")})`;
}

/** `bit 30 (exponent)`; several bits of one word. @param {string} dtype @param {number[]} bits */
export function bitsText(dtype, bits) {
  if (!bits.length) return "no bit";
  if (bits.length > 4) return `${bits.length} bits`;
  return bits.map((bit) => `bit ${bit}${fieldWords(dtype, bit)}`).join(", ");
}

/** How many representable values lie between two words; null where there is no such count:
 * integers and NaN. @param {string} dtype @param {bigint} a @param {bigint} b */
export function ulps(dtype, a, b) {
  if (!FLOATS[dtype] || [a, b].some((bits) => Number.isNaN(decodeBits(dtype, bits)))) return null;
  const top = BigInt(FLOATS[dtype][0]) << BigInt(width(dtype) - 1);
  const [from, to] = [a, b].map((bits) => (bits & top ? -(bits ^ top) : bits));
  return Number(from < to ? to - from : from - to);
}

/** Hexadecimal digits of a word, in full width. @param {string} hex @param {string} dtype */
export function hexText(hex, dtype) {
  return "0x" + hex.padStart(Math.max(1, width(dtype) / 4), "0");
}
