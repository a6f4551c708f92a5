/** The fault form, made from the kernel's registry. */

import { button, field, fill, h, input, select } from "./dom.js";
import { typed } from "./numbers.js";
import { askPreview } from "./preview.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @type {MakePane} */
export function formPart(view) {
  const { store } = view;
  const fields = h("div.fields");
  const preview = h("div.preview");
  const problem = h("div.problem", { role: "alert" });
  const arm = button("Arm", () => submit(), {}, "primary");
  const submit = () => {
    problem.textContent = "";
    arm.disabled = true;
    store.arm(store.ui.row).then(() => view.say("armed"))
      .catch((error) => { problem.textContent = error.message; })
      .finally(() => { arm.disabled = false; });
  };
  const el = h("form.form", { "aria-label": "fault", onsubmit: (event) => { event.preventDefault(); submit(); } },
    h("h4", null, "Fault"), fields, preview, problem, h("div.actions", null, arm));
  const look = () => {
    problem.textContent = "";
    askPreview(store, preview, problem);
  };
  return {
    el,
    update(topics) {
      if (store.readonly) el.hidden = true;
      if (topics.some((t) => ["site", "form", "hello", "element"].includes(t))) {
        fill(fields, formFields(store, look));
      }
      if (topics.some((t) => ["form", "element", "values"].includes(t))) look();
      if (topics.includes("site")) preview.replaceChildren();
    },
  };
}

/** @param {Store} store @param {() => void} look */
function formFields(store, look) {
  const form = store.ui.form;
  const model = store.hello.models.find((each) => each.name === form.model) ?? store.hello.models[0];
  if (!model) return [];
  const set = (name) => (text) => {
    form[name] = text;
    look();
  };
  const again = (change) => {
    Object.assign(form, change);
    store.changed("form", "values");
  };
  const selection = (store.hello.selections ?? []).find((each) => each.name === form.extent);
  const extents = (store.hello.selections ?? []).map((each) => [each.name, each.name === "index" ? "one element" : each.name]);
  return [
    field("fault model", modelSelect(store, model, (name) => again({ model: name, parameters: {} })), model.summary),
    h("div.note", null, model.summary, model.source ? h("span.cite", { title: model.source }, " [source]") : null),
    ...model.parameters.map((parameter) => parameterField(store, parameter)),
    field("elements", select(form.extent, extents, (extent) => again({ extent, extentText: "" })), selection?.summary ?? ""),
    form.extent === "index" ? field("index", input(store.ui.element.join(", "), (text) => setElement(store, text), { "aria-label": "index of the element" }))
      : selection && selection.example !== null ? field("which", input(form.extentText, set("extentText"), { placeholder: selection.example }), selection.summary) : null,
    field("steps", input(form.steps, set("steps"), { size: 6 }), "0, or 2,5-7,10-; counted from 0"),
    field("seed", input(form.seed, set("seed"), { size: 6, inputmode: "numeric" }), "seed of the fault's own draws"),
    h("details.more", null, h("summary", null, "more"),
      field("probability", input(form.probability, set("probability"), { placeholder: "1" })),
      field("times at most", input(form.times, set("times"), { placeholder: "no limit" })),
      field("scope", select(form.scope ?? "", [["", "value"], ["storage", "storage"]], set("scope")), "storage: a view's base is written, so that the fault persists")),
  ];
}

/** @param {Store} store @param {(name: string) => void} choose_ */
function modelSelect(store, model, choose_) {
  const box = h("select.select", { onchange: () => choose_(box.value), "aria-label": "fault model" });
  const groups = new Map();
  for (const each of store.hello.models) {
    if (!groups.has(each.group)) groups.set(each.group, h("optgroup", { label: each.group }));
    groups.get(each.group).append(h("option", { value: each.name }, each.name));
  }
  box.append(...groups.values());
  box.value = model.name;
  return box;
}

/** @param {Store} store */
function parameterField(store, parameter) {
  const { parameters } = store.ui.form;
  const { name, type, summary, unit } = parameter;
  const set = (text) => {
    const value = typed(type, text);
    if (value === null) delete parameters[name];
    else parameters[name] = value;
    store.changed("values");
  };
  const known = parameters[name];
  const shown = known === undefined ? "" : typeof known === "object" ? JSON.stringify(known) : String(known);
  const hint = parameter.default === null ? (parameter.required ? "required" : "") : String(parameter.default);
  const choices = type === "bool" ? ["true", "false"] : parameter.choices;
  const control = choices.length
    ? select(shown, [["", hint || "–"], ...choices.map((each) => [String(each), String(each)])], set)
    : input(shown, set, { placeholder: hint, "aria-required": parameter.required });
  return field(unit ? `${name} (${unit})` : name, control, summary);
}

/** @param {Store} store */
function setElement(store, text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean).map(Number);
  const shape = store.shapeOf(store.ui.row);
  if (parts.length !== shape.length || parts.some((x, axis) => !Number.isInteger(x) || x < 0 || x >= shape[axis])) return;
  store.ui.element = parts;
  store.inspect();
}
