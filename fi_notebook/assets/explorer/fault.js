/** The fault that the form describes: as a request, and in words. */

import { fieldWords } from "./bits.js";
import { siteText } from "./names.js";
import { plural, several } from "./numbers.js";
import { elementIndex, elementsOf, parameterValue, sendable, fractionOf, stepsOf, wholeNumber } from "./reading.js";

/** @import { Store } from "./store.js" */
/** What cannot be armed, as it stands: at which field, in words for the field and for the bar.
 * @typedef {{ field: string, label: string, text: string, said: string, missing: boolean }} Problem */

const STEPS_WANTED = "type 0, or several such as 2,5-7,10-; counted from 0";

/** How the trigger's boxes are read, and what each is called.
 * @type {Record<string, [string, (text: string, wanted: string) => any, string]>} */
export const TRIGGER = {
  steps: ["steps", stepsOf, STEPS_WANTED],
  seed: ["seed", (text, wanted) => wholeNumber(text, wanted, 0n), "type a whole number from 0"],
  probability: ["probability", fractionOf, "type a number from 0 to 1, such as 0.5"],
  times: ["times at most", (text, wanted) => wholeNumber(text, wanted, 1n), "type a whole number from 1, or nothing for no limit"],
  micro_batches: ["micro batches", stepsOf, STEPS_WANTED],
  ranks: ["ranks", stepsOf, "type 0, or several such as 1-3; counted from 0"],
};

/** Read the form: the fault as the kernel is asked for it, and what cannot be.
 * @param {Store} store @param {number} row @returns {{ request: Record<string, any>, problems: Problem[] }} */
export function readForm(store, row) {
  const { form } = store.ui;
  const problems = [];
  const read = (field, label, given, how) => {
    try {
      return how();
    } catch ({ message }) {
      problems.push({ field, label, text: message, said: label ? `${label}: ${message}` : message, missing: !String(given ?? "").trim() });
    }
  };
  const site = siteText(store.trace, row);
  if (store.shapeOf(row).includes(0)) read("empty", "", "", () => { throw new Error("the tensor has no element, so that no fault can strike it"); });
  const request = {
    site: form.calls === "every" ? site.replace(/\*.*$/, "") : site,
    model: form.model,
    parameters: readParameters(store, read),
    elements: read("elements", form.extent, form.extent === "index" ? store.ui.elementText : form.extentText, () => extentOf(store)),
    steps: "0", seed: 0,
  };
  for (const [name, [label, how, wanted]] of Object.entries(TRIGGER)) {
    const text = (form[name] ?? "").trim();
    if (text) request[name] = read(name, label, text, () => how(text, wanted));
  }
  if (form.scope) request.scope = form.scope;
  return { request: sendable(request), problems };
}

/** @param {Store} store @param {(field: string, label: string, given: any, how: () => any) => any} read */
function readParameters(store, read) {
  const { form } = store.ui;
  const model = store.hello.models.find((each) => each.name === form.model);
  const known = model?.parameters;
  if (!known) return form.parameters;
  if (model.needs && !Object.keys(form.parameters).length) read("needs", form.model, "", () => { throw new Error(model.needs); });
  const entries = known.map((each) => [each.name,
    read(`parameter ${each.name}`, each.name, form.parameters[each.name], () => parameterValue(each, form.parameters[each.name]))]);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** The fault as the kernel is asked for it. @param {Store} store @param {number} row */
export function requestOf(store, row) {
  const { request, problems } = readForm(store, row);
  if (problems.length) throw new Error(problems[0].said);
  return request;
}

/** The elements that the form describes.
 * @param {Store} store @returns {any} */
export function extentOf(store) {
  const { ui, hello } = store;
  const { extent, extentText } = ui.form;
  if (extent === "index") {
    if (ui.element) return { index: ui.element };
    if (ui.elementText?.trim()) elementIndex(ui.elementText, store.shapeOf(ui.row)); // says why
    throw new Error("no element is chosen; click one in the picture, or type its index");
  }
  const known = hello.selections?.find((each) => each.name === extent);
  return elementsOf(extent, String(extentText), known && known.example === null);
}

/** The same, or null where it cannot be read. @param {Store} store */
export function extentIfRead(store) {
  try {
    return extentOf(store);
  } catch {
    return null;
  }
}

/** The fault in words: `bitflip(bit=30 (exponent)) on element [0, 3], step 0`. @param {Store} store */
export function faultText(store) {
  const { form } = store.ui;
  const given = Object.entries(parametersShown(store)).map(([name, value]) =>
    `${name}=${valueText(value)}${name === "bit" ? fieldWords(struckDtype(store), value) : ""}`);
  return [`${form.model}${given.length ? `(${given.join(", ")})` : ""} on ${extentText(store)}`, form.calls === "every" ? "every call" : "",
    numbered("step", form.steps.trim() || "0"), ...triggerTexts(form)].filter(Boolean).join(", ");
}

/** The dtype of what is armed at; "" where every call of an operator is. @param {Store} store */
function struckDtype({ trace, ui }) {
  return ui.row >= 0 && ui.form.calls !== "every" ? trace.data.dtypes[trace.columns.dtype[ui.row]] : "";
}

/** The parameters as they are read; as they stand where they cannot be. @param {Store} store */
function parametersShown(store) {
  return readParameters(store, (_field, _label, given, how) => {
    try {
      return how();
    } catch {
      return given;
    }
  });
}

/** A value as Python writes it, more or less. */
function valueText(value) {
  return typeof value === "bigint" ? String(value) : JSON.stringify(sendable(value));
}

/** When, where and how a fault strikes, as far as that is unusual: `probability 0.5`, `at most
 * 3 times`, `rank 1-3`; of the form or of an armed fault alike. */
export function triggerTexts(fault) {
  const told = (name, usual) => {
    const text = String(fault[name] ?? "").trim();
    return text === usual ? "" : text;
  };
  const [probability, times, scope] = [told("probability", "1"), told("times", ""), told("scope", "value")];
  const [batches, ranks] = [told("micro_batches", ""), told("ranks", "")];
  const filters = Object.entries(fault.filters ?? {}).map(([name, chosen]) => `${name} ${chosen.join(", ") || "none"}`);
  return [probability && `probability ${probability}`, times && `at most ${times} time${times === "1" ? "" : "s"}`,
    batches && numbered("micro batch", batches), ranks && numbered("rank", ranks), scope && `scope ${scope}`, ...filters].filter(Boolean);
}

/** `step 0`, `steps 5-7`, `every step`: in the words of `Steps.in_words`. @param {string} noun @param {string} numbers */
function numbered(noun, numbers) {
  if (numbers === "0-") return `every ${noun}`;
  return `${/^\d+$/.test(numbers) ? noun : several(noun)} ${numbers}`;
}

/** @param {Store} store */
function extentText(store) {
  const { extent, extentText: text } = store.ui.form;
  if (extent === "all") return "all elements";
  if (extent === "index") return store.ui.element ? `element [${store.ui.element.join(", ")}]` : "one element, not yet chosen";
  if (extent === "count") return `${text} drawn element${String(text).trim() === "1" ? "" : "s"}`;
  const given = extentIfRead(store)?.[extent];
  if (Array.isArray(given) && given.every(Number.isInteger)) return `${extent} ${given.join(", ")}`;
  if (Array.isArray(given?.shape)) return `${extent} of ${given.shape.join(" × ")}${given.at ? ` at [${given.at.join(", ")}]` : ""}`;
  if (typeof given === "object" && Number.isInteger(given?.length) && !Array.isArray(given)) return `${extent} of ${given.length}${given.start === undefined ? "" : ` from ${given.start}`}`;
  return `${extent} ${text}`.replaceAll('"', "").trim();
}

/** What Arm arms at, in words. @param {Store} store @param {number} row */
export function targetText(store, row) {
  const { trace, ui } = store;
  return ui.form.calls === "every" ? `every ${trace.data.ops[trace.columns.op[row]]}` : siteText(trace, row);
}

/** How many faults a plan has, in words: `2 faults armed, 1 off`, `1 fault, switched off`.
 * @param {{ enabled: boolean }[]} faults */
export function planText(faults) {
  const on = faults.filter((fault) => fault.enabled).length;
  const off = faults.length - on;
  if (!on) return off ? `${plural(off, "fault")}, switched off` : "no fault armed";
  return `${plural(on, "fault")} armed${off ? `, ${off} off` : ""}`;
}

/** The lines that arm what is armed and replay it, as a person would write them.
 * @param {{ faults: any[], session: string }} plan @param {number} steps */
export function planCode({ faults, session }, steps) {
  const armed = faults.filter((fault) => fault.enabled).map((fault) => fault.code);
  return [...armed, `run = ${session}.replay(steps=${steps})`, "print(run.outcome)"].join("\n");
}
