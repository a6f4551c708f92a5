/** What a person typed into a box, read: a value, or an error that says what was given and what
 * to type. */

import { clip } from "./numbers.js";
import { unflat } from "./plane.js";

const WHOLE = /^[+-]?\d+$/;
const REAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const NONFINITE = /^([+-]?)(nan|inf|infinity)$/i;
const MASK = /^[+-]?0(?:x[\da-f_]+|b[01_]+|o[0-7_]+)$/i;
const STEPS = /^\s*(\d{1,18})\s*(?:(-)\s*(\d{1,18})?)?\s*(?::\s*(\d{1,18}))?\s*$/;
const SLICE = /^(?:\.\.\.|-?\d+|\s*(?:-?\d+)?\s*:\s*(?:-?\d+)?\s*(?::\s*(?:-?\d+)?\s*)?)$/;
const WHERE = /^(?:nan|inf|finite|(?:x|abs\(x\)|abs|\|x\|)?\s*(?:<=|>=|==|!=|<|>)\s*([+-]?(?:inf(?:inity)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)))$/;
const LIMIT = 1n << 63n; // seeds, counts and whole parameters lie below it

/** @param {string} text @param {string} wanted @returns {never} */
function refuse(text, wanted) {
  throw new Error(text ? `'${clip(text, 40)}' cannot be: ${wanted}` : wanted);
}

/** A whole number in full: from 2**53 on a BigInt, which `sendable` sends as text.
 * @param {string} text @param {string} wanted @param {bigint | null} [low] @param {bigint | null} [end] */
export function wholeNumber(text, wanted, low = null, end = LIMIT) {
  if (!WHOLE.test(text)) refuse(text, wanted);
  const found = BigInt(text.replace("+", ""));
  if (low !== null ? found < low : end !== null && found <= -end) refuse(text, wanted);
  if (end !== null && found >= end) refuse(text, `${wanted}, below 2**63`);
  return Number.isSafeInteger(Number(found)) ? Number(found) : found;
}

/** A number as float64 holds it; a whole one in full. @param {string} text @param {string} wanted */
export function realNumber(text, wanted) {
  if (WHOLE.test(text)) return wholeNumber(text, wanted, null, null);
  return REAL.test(text) ? inFloat64(text, wanted) : refuse(text, wanted);
}

/** @param {string} text of a number @param {string} wanted */
function inFloat64(text, wanted) {
  const found = Number(text);
  if (!Number.isFinite(found)) refuse(text, `it is more than float64 holds; ${wanted}`);
  if (found === 0 && /[1-9]/.test(text.split(/e/i)[0])) refuse(text, `it is so small that float64 makes it 0; ${wanted}`);
  return found;
}

/** A number from 0 to 1. @param {string} text @param {string} wanted */
export function fractionOf(text, wanted) {
  const found = realNumber(text, wanted);
  return found >= 0 && found <= 1 ? found : refuse(text, wanted);
}

/** Steps, ranks or micro batches, as the text that they are. @param {string} text @param {string} wanted */
export function stepsOf(text, wanted) {
  for (const part of text.split(",")) {
    const [all, first, dash, last, stride] = STEPS.exec(part) ?? [];
    const fits = all !== undefined && (stride === undefined || (dash && Number(stride) > 0));
    if (!fits) refuse(text, wanted);
    if (last !== undefined && BigInt(last) < BigInt(first)) refuse(text, `${part.trim()} ends before it begins; ${wanted}`);
  }
  return text;
}

/** A number, or one of those that JSON has not. @param {string} text @param {string} wanted */
function anyNumber(text, wanted) {
  const [all, sign, word] = NONFINITE.exec(text) ?? [];
  if (!all) return realNumber(text, wanted);
  return word.toLowerCase() === "nan" ? "nan" : `${sign.replace("+", "")}inf`;
}

/** The parts of a list, and whether it is one: by its brackets, or a comma at its end.
 * @param {string} text */
function listed(text) {
  const [, square, round] = /^(?:\[(.*)\]|\((.*)\))$/s.exec(text) ?? [];
  const inner = square ?? round ?? text;
  const parts = inner.trim() ? inner.split(",").map((part) => part.trim()) : [];
  const ends = parts.length > 1 && !parts[parts.length - 1];
  if (ends) parts.pop();
  return { parts, list: inner !== text || ends };
}

/** One whole number, or several. @param {string} text @param {string} wanted @param {bigint | null} [low] */
function severalOf(text, wanted, low = null) {
  const { parts, list } = listed(text);
  if (!parts.length || parts.some((part) => !WHOLE.test(part))) refuse(text, wanted);
  const found = parts.map((part) => wholeNumber(part, wanted, low));
  return found.length === 1 && !list ? found[0] : found;
}

/** A mapping, in JSON or as Python writes it. @param {string} text @param {string} wanted */
function mappingOf(text, wanted) {
  for (const each of [text, text.replaceAll("'", '"')]) {
    try {
      const found = JSON.parse(each);
      if (found && typeof found === "object" && !Array.isArray(found)) return found;
    } catch { /* the other way of writing it, or none */ }
  }
  return refuse(text, wanted);
}

/** How each type of parameter is read, and what to type. @type {Record<string, [(text: string, wanted: string) => any, string]>} */
const PARAMETERS = {
  bool: [(text) => text === "true", "choose true or false"],
  str: [(text) => text, "type a text"],
  int: [(text, wanted) => wholeNumber(text, wanted), "type a whole number such as 3"],
  ints: [severalOf, "type a whole number such as 3, or several such as 1, 4"],
  mask: [(text, wanted) => (MASK.test(text) ? text : wholeNumber(text, wanted, null, null)), "type a whole number, or bits such as 0x8000"],
  float: [realNumber, "type a finite number such as 0.5"],
  value: [anyNumber, "type a number such as 0.5, or nan, inf or -inf"],
  mapping: [mappingOf, 'type a mapping such as {"factor": 2}'],
};

/** The value of a parameter; undefined where nothing is given.
 * @param {{ type: string, choices?: any[], required?: boolean }} parameter
 * @param {any} given what was typed, or a value that was put there */
export function parameterValue({ type, choices = [], required = false }, given) {
  if (given !== undefined && typeof given !== "string") return given;
  const [read, wanted] = PARAMETERS[type] ?? PARAMETERS.value;
  const text = (given ?? "").trim();
  if (!text) return required ? refuse("", type === "choice" ? "choose one" : wanted) : undefined;
  if (type !== "choice") return read(text, wanted);
  const chosen = choices.find((each) => String(each) === text);
  return chosen === undefined ? refuse(text, `choose one of ${choices.join(", ")}`) : chosen;
}

/** A number of sizes, or sizes and a corner. @param {string} text @param {string} wanted */
function boxOf(text, wanted) {
  return text.startsWith("{") ? mappingOf(text, wanted) : [severalOf(text, wanted, 1n)].flat();
}

/** Lines by their numbers, or a drawn one. @param {string} text @param {string} wanted */
function linesOf(text, wanted) {
  return /^["']?any["']?$/i.test(text) ? "any" : severalOf(text, wanted);
}

/** A length, or a length and where it begins. @param {string} text @param {string} wanted */
function lengthOf(text, wanted) {
  return text.startsWith("{") ? mappingOf(text, wanted) : wholeNumber(text, wanted, 1n);
}

/** @param {string} text @param {string} wanted */
function sliceOf(text, wanted) {
  const bare = text.replace(/^(["'])(.*)\1$/s, "$2").trim();
  const terms = bare.replace(/^\[(.*)\]$/s, "$1").split(",");
  const fits = terms.every((term) => SLICE.test(term.trim()) && !/:[^:]*:\s*-?0+\s*$/.test(term));
  return fits && terms.filter((term) => term.trim() === "...").length < 2 ? bare : refuse(text, wanted);
}

/** A comparison or a kind of number, in small letters as the kernel reads it.
 * @param {string} text @param {string} wanted */
function conditionOf(text, wanted) {
  const bare = text.replace(/^(["'])(.*)\1$/s, "$2").trim().toLowerCase();
  const [all, number] = WHERE.exec(bare) ?? [];
  if (all === undefined) refuse(text, wanted);
  if (number && !number.includes("inf")) inFloat64(number, wanted);
  return bare;
}

/** How the argument of each selection is read, and what to type.
 * @type {Record<string, [(text: string, wanted: string) => any, string]>} */
const SELECTIONS = {
  count: [(text, wanted) => wholeNumber(text, wanted, 0n), "type how many elements, such as 5"],
  top: [(text, wanted) => wholeNumber(text, wanted, 1n), "type how many of the largest, such as 5"],
  fraction: [fractionOf, "type a number from 0 to 1, such as 0.01"],
  slice: [sliceOf, "type a slice such as 0, :, 3:7"],
  where: [conditionOf, "type a comparison such as > 0.5 or abs(x) < 1e-3, or nan, inf or finite"],
  run: [lengthOf, 'type how many elements, such as 16, or {"length": 16, "start": 0}'],
  strided: [lengthOf, 'type a period such as 32, or {"period": 32, "offset": 3}'],
  row: [linesOf, "type the number of a row, several such as 0, 2, or any"],
  column: [linesOf, "type the number of a column, several such as 0, 2, or any"],
  channel: [linesOf, "type the number of a channel, several such as 0, 2, or any"],
  tile: [boxOf, 'type rows and columns such as 4, 4, or {"shape": [4, 4], "at": [0, 8]}'],
  block: [boxOf, 'type sizes such as 3, 3, or {"shape": [2, 2], "at": [0, 0, 4, 4]}'],
};

/** Elements as Python has them: `"all"`, `{ count: 5 }`; one alone is read by `elementIndex`.
 * @param {string} name of the selection @param {string} given its argument, as it was typed
 * @param {boolean} [word] whether the word alone chooses */
export function elementsOf(name, given, word = name === "all" || name === "nonzero") {
  if (word) return name;
  const text = unwrapped(name, given.trim());
  const [read, wanted] = SELECTIONS[name] ?? [mappingOrNumber, "type a number, or a mapping in JSON"];
  return { [name]: text ? read(text, wanted) : refuse("", wanted) };
}

/** An argument of a selection that somebody has added. @param {string} text @param {string} wanted */
function mappingOrNumber(text, wanted) {
  return text.startsWith("{") ? mappingOf(text, wanted) : severalOf(text, wanted);
}

/** The argument of a whole selection that was typed, `{"tile": [4, 4]}`; else the text itself.
 * @param {string} name @param {string} text */
function unwrapped(name, text) {
  const [, key, inner] = /^\{\s*["']?(\w+)["']?\s*:(.*)\}$/s.exec(text) ?? [];
  return key === name ? inner.trim() : text;
}

/** Coordinates of one element: `0, 3`, `[0, 3]` or a flat index, negative ones from the end.
 * @param {string} given @param {number[]} shape @returns {number[]} */
export function elementIndex(given, shape) {
  const text = unwrapped("index", given.trim());
  const size = shape.reduce((a, b) => a * b, 1);
  const zeros = shape.map(() => 0).join(", ");
  const wanted = !shape.length ? "a scalar has one element: type [] or 0" : shape.length === 1 ? "type an index such as 0"
    : `type ${shape.length} indices such as ${zeros}, or a flat index from 0 to ${size - 1}`;
  const { parts, list } = listed(text);
  if (!size) refuse(text, "the tensor has no element");
  if (/^[[(]{2}/.test(text.replace(/\s/g, ""))) refuse(text, `one element only; several stand in a plan or in Python; ${wanted}`);
  if (parts.some((part) => !WHOLE.test(part))) refuse(text, wanted);
  if (!list && parts.length === 1) return unflat(shape, within(text, parts[0], size, shape.length === 1 ? "the index" : "the flat index"));
  if (parts.length !== shape.length) refuse(text, wanted);
  return parts.map((part, axis) => within(text, part, shape[axis], `dimension ${axis}`));
}

/** An index counted from the start. @param {string} text @param {string} part @param {number} size @param {string} what */
function within(text, part, size, what) {
  const at = Number(part);
  if (at < -size || at >= size) refuse(text, `${what} is ${size === 1 ? "0" : `0 to ${size - 1}`}, or negative from the end`);
  return at < 0 ? at + size : at;
}

/** A value as JSON can hold it: whole numbers beyond 2**53 travel as text, in full. */
export function sendable(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(sendable);
  if (!value || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, sendable(each)]));
}

/** The whole number that stands in a box, or NaN. */
export function wholeIn(given) {
  if (typeof given !== "string") return typeof given === "number" ? given : NaN;
  return WHOLE.test(given.trim()) ? Number(given) : NaN;
}
