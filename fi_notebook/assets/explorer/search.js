/** The search: words and fields become a mask over the sites. */

import { frameText, siteText } from "./names.js";

/** @import { Trace } from "./names.js" */
/** @typedef {{ field: string, value: string, negate: boolean, unknown?: string }} Term */
/** @typedef {(trace: Trace, value: string) => (row: number) => boolean} MakeTest */

export const FIELDS = ["op", "phase", "module", "code", "dtype", "bad", "armed",
  "effect", "is", "re"];

/** What `bad:` takes. */
export const BAD = ["nan", "inf"];

/** Values of two words, which need no quotes: `effect:passed on`, `is:in place`; `_` is a blank too.
 * @param {string[]} names @param {string} field @param {string} text that begins with the value */
function phraseAt(names, field, text) {
  if (!["effect", "is"].includes(field)) return "";
  const given = text.toLowerCase().replaceAll("_", " ");
  return names.find((name) => name.includes(" ") && given.startsWith(name) && !/\S/.test(given[name.length] ?? "")) ?? "";
}

/** Read a search: words, `field:value`, `-field:value`, `re:pattern`; quotes keep spaces.
 * @param {string} text @param {string[]} [names] marks and effects that there are @returns {Term[]} */
export function parseQuery(text, names = []) {
  const terms = [];
  const read = /(-?)(?:([a-z]+):(?=["\S]|\s|$))?("[^"]*"?|\S*)/giy;
  while (read.lastIndex < text.length) {
    const start = read.lastIndex;
    const [all, minus, name = "", rest] = /** @type {RegExpExecArray} */ (read.exec(text)); // it fits anywhere, if nothing
    if (!all) {
      read.lastIndex = start + 1;
      continue;
    }
    const field = name.toLowerCase();
    const phrase = phraseAt(names, field, text.slice(start + all.length - rest.length, start + all.length + 40));
    if (phrase) read.lastIndex = start + all.length - rest.length + phrase.length;
    const value = phrase || rest.replace(/^"|"$/g, "");
    const known = !field || FIELDS.includes(field);
    terms.push({ field: known ? field : "", value: known ? value : `${name}:${value}`,
      negate: minus === "-", ...(known ? {} : { unknown: name }) });
  }
  return terms;
}

/** A glob without case; one pass over a text, however many stars there are.
 * @param {string} pattern @returns {{ test: (text: string) => boolean }} */
export function glob(pattern) {
  const [first, ...parts] = pattern.toLowerCase().split("*");
  const last = parts.pop();
  return { test(text) {
    const name = String(text).toLowerCase();
    if (last === undefined) return name === first;
    let at = name.startsWith(first) ? first.length : -1;
    for (const part of parts) {
      const found = at < 0 ? -1 : name.indexOf(part, at);
      at = found < 0 ? -1 : found + part.length;
    }
    return at >= 0 && name.length - last.length >= at && name.endsWith(last);
  } };
}

/** @param {(entry: any, row: number) => boolean} test */
function chosen(table, test) {
  return Uint8Array.from(table, (entry, row) => (test(entry, row) ? 1 : 0));
}

/** @type {MakeTest} */
function opTest(trace, value) {
  const call = /^(.*)\*(\d+)(?::(\d+))?$/.exec(value);
  const wanted = glob(call ? call[1] : value);
  const ops = chosen(trace.data.ops, (op) => wanted.test(op));
  const { op, number: numbers, output } = trace.columns;
  if (!call) return (row) => ops[op[row]] === 1;
  return (row) => ops[op[row]] === 1 && numbers[row] === Number(call[2])
    && (call[3] === undefined || output[row] === Number(call[3]));
}

/** @type {MakeTest} */
function moduleTest(trace, value) {
  const exactly = glob(value);
  const below = glob(`${value}.*`);
  const modules = chosen(trace.data.modules, ([path, , aliases]) =>
    value === "" || [path, ...aliases].some((name) => exactly.test(name) || below.test(name)));
  return (row) => modules[trace.columns.module[row]] === 1;
}

/** @type {MakeTest} */
function codeTest(trace, value) {
  const line = /^\d+$/.test(value) ? Number(value) : null;
  const text = value.toLowerCase().replace(/\[(\d+)\]$/, ":$1");
  const frames = chosen(trace.data.frames, (frame) =>
    line === null ? `${frame[0]}:${frame[1]}`.toLowerCase().includes(text) : frame[1] === line);
  const stacks = chosen(trace.data.stacks, (stack) =>
    stack.some((f) => frames[f] === 1));
  const { stack, own_stack: own } = trace.columns;
  return (row) => stacks[stack[row]] === 1 || stacks[own[row]] === 1;
}

/** @type {MakeTest} */
function badTest(trace, value) {
  const { nan, posinf, neginf } = trace.columns;
  const [anyNan, anyInf] = BAD.map((kind) => kind.startsWith(value.toLowerCase()));
  return (row) => (anyNan && nan[row] > 0) || (anyInf && (posinf[row] > 0 || neginf[row] > 0));
}

/** Views, collectives, calls in place: what the trace marks. @type {MakeTest} */
function flagTest(trace, value) {
  const wanted = value.toLowerCase();
  const bits = trace.data.flags.reduce((sum, name, bit) => (name.startsWith(wanted) ? sum | (1 << bit) : sum), 0);
  return (row) => (trace.columns.flags[row] & bits) !== 0;
}

/** @type {MakeTest} */
function wordTest(trace, value) {
  const word = value.toLowerCase();
  const has = (text) => String(text).toLowerCase().includes(word);
  const c = trace.columns;
  const ops = chosen(trace.data.ops, has);
  const modules = chosen(trace.data.modules, ([path, kind]) => has(path) || has(kind));
  const parameters = chosen(trace.data.parameters, has);
  const frames = chosen(trace.data.frames, (frame) => has(frameText(frame)));
  const stacks = chosen(trace.data.stacks, (s) => s.some((f) => frames[f] === 1));
  const full = /[*:[]/.test(word);
  return (row) => ops[c.op[row]] === 1 || modules[c.module[row]] === 1
    || stacks[c.stack[row]] === 1
    || (c.parameter[row] >= 0 && parameters[c.parameter[row]] === 1)
    || (full && has(siteText(trace, row)));
}

/** How long a pattern may take for all rows. */
const PATIENCE_MS = 2000;
/** How many repeats and options (`*`, `+`, `?`, `{1,9}`) a pattern may have: time grows with a
 * power of them. */
const REPEATS = 5;
const TOKEN = /\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:<?[=!]|:|<\w+>))?|[)|]|[*+?]\??|\{\d+(?:,\d*)?\}\??|./gs;

/** How often a repeat may come: at least and at most. @param {string} part */
function rangeOf(part) {
  if (part[0] !== "{") return [part[0] === "+" ? 1 : 0, part[0] === "?" ? 1 : Infinity];
  const [least, most] = part.slice(1, part.indexOf("}")).split(",");
  return [Number(least), most === undefined ? Number(least) : Number(most || Infinity)];
}

/** Refuse what can take for ever, since a page cannot stop it: an endless repeat around a
 * repeat, an option or a choice, as `(a+)+`, `(a?)*` and `(a|ab)*`, and very many of them.
 * @param {string} pattern */
function checkRepeats(pattern) {
  const groups = [{ free: 0, choices: 0 }];
  let last = { free: 0, choices: 0 };
  for (const [part] of pattern.matchAll(TOKEN)) {
    const top = groups[groups.length - 1];
    if (/^([*+?]|\{\d)/.test(part)) {
      const [least, most] = rangeOf(part);
      const inner = last.free + last.choices;
      if (most === Infinity && inner) throw new SyntaxError(`a repeat around a repeat or a choice may take for ever: ${pattern}`);
      if (most > 1 && inner) top.free += (most - 1) * inner + last.choices;
      if (least !== most) top.free += 1;
    } else if (part === "|") top.choices += 1;
    else if (part[0] === "(") groups.push({ free: 0, choices: 0 });
    last = { free: 0, choices: 0 };
    if (part === ")" && groups.length > 1) {
      last = /** @type {typeof last} */ (groups.pop());
      groups[groups.length - 1].free += last.free;
      groups[groups.length - 1].choices += last.choices;
    }
  }
  if (groups[0].free > REPEATS) throw new SyntaxError(`more than ${REPEATS} repeats may take for ever: ${pattern}`);
}

/** A pattern, or why it is none: engines put the reason last, after the pattern itself.
 * @param {string} pattern */
function readPattern(pattern) {
  try {
    return new RegExp(pattern, "i");
  } catch (error) {
    throw new SyntaxError(`re:${pattern} is no pattern: ${error.message.split(": ").pop().toLowerCase()}`);
  }
}

/** @type {MakeTest} */
function patternTest(trace, pattern) {
  const wanted = readPattern(pattern);
  checkRepeats(pattern);
  const modules = trace.data.modules;
  const end = performance.now() + PATIENCE_MS;
  return (row) => {
    if (performance.now() > end) throw new SyntaxError(`the pattern takes too long: ${pattern}`);
    return wanted.test(`${modules[trace.columns.module[row]][0]} ${siteText(trace, row)}`);
  };
}

/** What a term needs to know beside the trace.
 * @typedef {{ armed: Map<number, string[]>, effect: Uint8Array | null, effects: string[] }} Facts */

/** @param {Trace} trace @param {Term} term @param {Facts} facts @returns {(row: number) => boolean} */
function test(trace, term, facts) {
  const { value } = term;
  const c = trace.columns;
  const starts = (name) => String(name).toLowerCase().startsWith(value.toLowerCase());
  if (term.field === "op") return opTest(trace, value);
  if (term.field === "module") return moduleTest(trace, value);
  if (term.field === "code") return codeTest(trace, value);
  if (term.field === "bad") return badTest(trace, value);
  if (term.field === "re") return patternTest(trace, value);
  if (term.field === "armed") return armedTest(facts, value);
  if (term.field === "phase") return byTable(chosen(trace.data.phases, starts), c.phase);
  if (term.field === "dtype") return byTable(chosen(trace.data.dtypes, starts), c.dtype);
  if (term.field === "is") return flagTest(trace, value);
  if (term.field === "effect") {
    if (!facts.effect) return () => false;
    return byTable(chosen(facts.effects, starts), facts.effect);
  }
  return wordTest(trace, value);
}

/** @param {Uint8Array} mask */
function byTable(mask, column) {
  return (row) => mask[column[row]] === 1;
}

/** @param {Facts} facts @param {string} value @returns {(row: number) => boolean} */
function armedTest(facts, value) {
  return (row) => {
    const faults = facts.armed.get(row);
    return Boolean(faults) && (!value || faults.includes(value));
  };
}

/** The rows that all terms choose, as a mask. Throws where a pattern cannot be read.
 * @param {Trace} trace @param {Term[]} terms @param {Facts} facts */
export function search(trace, terms, facts) {
  const tests = terms.map((term) => ({ run: test(trace, term, facts), negate: term.negate }));
  const mask = new Uint8Array(trace.size);
  for (let row = 0; row < trace.size; row += 1) {
    mask[row] = tests.every(({ run, negate }) => run(row) !== negate) ? 1 : 0;
  }
  return mask;
}
