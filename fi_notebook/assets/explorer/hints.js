/** Why a search finds nothing, where that can be told from its terms. */

import { plural } from "./numbers.js";
import { BAD, FIELDS, glob, search } from "./search.js";

/** @import { Facts, Term } from "./search.js" */
/** @import { Trace } from "./names.js" */

/** How many letters are to be changed, left out or put in to make one word of another.
 * @param {string} a @param {string} b */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length];
}

/** The known name that is nearest, where one is near. @param {string} name @param {string[]} known */
function nearest(name, known) {
  const word = name.toLowerCase().slice(0, 40);
  const [best] = known.map((each) => ({ each, far: distance(word, each.toLowerCase()) })).sort((a, b) => a.far - b.far);
  return best && best.far <= Math.max(1, Math.floor(word.length / 3)) ? best.each : "";
}

/** What stands in place of a name that is not known. @param {string} what @param {string} name
 * @param {string[]} known @param {string} [end] */
function missing(what, name, known, end = "") {
  const near = nearest(name, known);
  const meant = near ? `, did you mean ${near}${end}? Known` : "; known";
  return `no site fits: there is no ${what} ${name.slice(0, 40)}${end}${meant} are ${known.map((each) => each + end).join(", ")}`;
}

/** Operators that fit all other terms, whose names begin with the name of one term: of an operator
 * its backward calls, which have names of their own, of what is no operator all that it begins. @param {Trace} trace @param {Term[]} terms @param {Facts} facts */
function longer(trace, terms, facts) {
  for (const term of terms) {
    const [, name] = (term.field === "op" && !term.negate && /^([^*]+)(?:\*\d.*)?$/.exec(term.value)) || [];
    if (!name) continue;
    const ops = trace.data.ops.map((op) => op.toLowerCase());
    const start = name.toLowerCase() + (ops.includes(name.toLowerCase()) ? "_backward" : "");
    const begins = ops.map((op) => op.startsWith(start));
    if (!begins.includes(true)) continue;
    const calls = new Map();
    search(trace, terms.filter((other) => other !== term), facts).forEach((fits, row) => {
      const op = trace.columns.op[row];
      if (fits && begins[op]) calls.set(op, (calls.get(op) ?? new Set()).add(trace.columns.call[row]));
    });
    const found = [...calls].slice(0, 3).map(([op, those]) => `${trace.data.ops[op]} has ${plural(those.size, "call")}`);
    if (found.length) return `no site fits: no call of ${name} does; ${found.join(", ")}: op:${name}*`;
  }
  return "";
}

/** A call or an output that an operator has not. @param {Trace} trace @param {string} text */
function pastLast(trace, text) {
  const [, name, call, output] = /^([^*]+)\*(\d+)(?::(\d+))?$/.exec(text) ?? [];
  const op = name ? trace.data.ops.findIndex((each) => each.toLowerCase() === name.toLowerCase()) : -1;
  if (op < 0) return "";
  const { op: ops, number, output: outputs } = trace.columns;
  const most = (of, fits) => ops.reduce((max, each, row) => (each === op && fits(row) ? Math.max(max, of[row]) : max), -1);
  const calls = most(number, () => true);
  if (Number(call) > calls) return `${trace.data.ops[op]} has ${plural(calls, "call")}`;
  const last = most(outputs, (row) => number[row] === Number(call));
  return output !== undefined && Number(output) > last ? `${trace.data.ops[op]}*${call} has ${plural(last + 1, "output")}` : "";
}

/** Operators that have the word within their names, or one whose name is near.
 * @param {Trace} trace @param {string} value */
function otherOperator({ data: { ops } }, value) {
  const name = value.replace(/\*\d+(?::\d+)?$/, "");
  if (!name || name.includes("*") || ops.some((op) => op.toLowerCase() === name.toLowerCase())) return "";
  const having = ops.filter((op) => op.toLowerCase().includes(name.toLowerCase()));
  if (having.length) return `there is no operator ${name}; op:*${name}* finds ${having.slice(0, 3).join(", ")}${having.length > 3 ? ` and ${having.length - 3} more` : ""}`;
  const near = nearest(name, ops);
  return near && `there is no operator ${name.slice(0, 40)}, did you mean ${near}?`;
}

/** @param {Trace} trace @param {string} value */
function otherModule({ data: { modules } }, value) {
  const names = modules.flatMap(([path, , aliases]) => [path, ...aliases]).filter(Boolean);
  const [exactly, below] = [glob(value), glob(`${value}.*`)];
  if (!value || names.some((name) => exactly.test(name) || below.test(name))) return "";
  const near = nearest(value, names);
  return `there is no module ${value.slice(0, 40)}${near && `, did you mean ${near}?`}`;
}

/** What the values of a field are called. @type {Record<string, string>} */
const KNOWN_AS = { is: "mark", bad: "kind of bad value", armed: "armed fault" };

/** How names of stored tensors begin. */
const STORED = ["param", "buffer", "grad", "state"];

/** Why one term fits nothing, where its field tells. @param {Trace} trace @param {Term} term */
function termHint(trace, { field, value, unknown = "" }) {
  if (STORED.includes(unknown)) return `${value.slice(0, 80)} is a stored tensor, no call: arm it with session.arm("${value.slice(0, 80)}", …)`;
  if (field === "op") return pastLast(trace, value) || otherOperator(trace, value);
  if (field === "module") return otherModule(trace, value);
  return field ? "" : pastLast(trace, value);
}

/** Why nothing is found, in one sentence; "" where the terms do not tell.
 * @param {Trace} trace @param {Term[]} terms @param {Facts} facts */
export function hintOf(trace, terms, facts) {
  for (const { field, value, negate, unknown } of terms) {
    if (STORED.includes(unknown ?? "")) continue;
    if (unknown && !value.startsWith(`${unknown}::`)) return missing("field", unknown, FIELDS, ":");
    if (field === "effect" && !facts.effect && !negate) return "no site fits: effects are known after a replay; press Replay first";
    if (field === "armed" && !facts.armed.size && !negate) return "no site fits: nothing is armed";
    const known = { phase: trace.data.phases, is: trace.data.flags, effect: facts.effects, dtype: trace.data.dtypes, bad: BAD,
      armed: [...new Set([...facts.armed.values()].flat())] }[field];
    const starts = known?.some((name) => name.toLowerCase().startsWith(value.toLowerCase()));
    if (known && !starts && !negate) return missing(KNOWN_AS[field] ?? field, value, known);
  }
  const told = longer(trace, terms, facts);
  const [first] = told ? [] : terms.filter((term) => !term.negate).map((term) => termHint(trace, term)).filter(Boolean);
  return first ? `no site fits: ${first}` : told;
}
