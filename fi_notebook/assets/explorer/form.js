/** The fault form, made from the kernel's registry: what is typed stays as it is, and is read when
 * it is armed or previewed; what cannot be is told at its field. */

import { chooseTyped } from "./aiming.js";
import { armBar } from "./armbar.js";
import { field, fill, freshId, h, input, select } from "./dom.js";
import { edited } from "./editing.js";
import { TRIGGER, readForm } from "./fault.js";
import { isMarked } from "./names.js";
import { clip } from "./numbers.js";
import { askPreview, previewTable } from "./preview.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Problem } from "./fault.js" */
/** @import { Store } from "./store.js" */

/** The fields and the preview; `bar` stays in sight below the card.
 * @param {import("./dom.js").View} view */
export function formPart(view) {
  const { store } = view;
  const fields = h("fieldset.fields");
  const preview = h("div.preview");
  view.toForm = () => {
    fields.scrollIntoView({ block: "nearest" });
    fields.querySelector("select").focus();
  };
  const bar = armBar(view, view.toForm);
  const el = h("form.form", { id: bar.form, "aria-label": "fault", onsubmit: (event) => { event.preventDefault(); bar.arm(); } },
    h("h4", null, "Fault"), fields, preview);
  return {
    el, bar: bar.el,
    update(topics) {
      el.hidden ||= store.readonly;
      bar.el.hidden = el.hidden;
      const has = (...names) => names.some((name) => topics.includes(name));
      if (has("site", "form", "hello", "element") || (has("values") && !fields.contains(fields.ownerDocument.activeElement))) {
        fill(fields, formFields(store));
      }
      if (has("site", "form", "hello", "element", "values", "fault")) markProblems(fields, readForm(store, store.ui.row).problems);
      if (has("site", "form", "element", "values", "plan", "fault")) askPreview(store);
      fields.disabled = Boolean(store.lost);
      if (has("site", "preview")) fill(preview, store.lost ? [h("div.warning", null, `nothing can be armed: ${store.lost}`)] : previewTable(store));
      if (has("site", "form", "element", "preview", "fault", "plan")) bar.update();
    },
  };
}

/** Say at each field what is wrong with what stands in it.
 * @param {HTMLElement} fields @param {Problem[]} problems */
function markProblems(fields, problems) {
  for (const place of fields.querySelectorAll("[data-field]")) {
    const [control, said] = place.querySelectorAll(".fi-input, .fi-select, .fi-wrong");
    const wrong = problems.find((each) => each.field === /** @type {any} */ (place).dataset.field && !each.missing);
    said.textContent = wrong?.text ?? "";
    control.setAttribute("aria-invalid", String(Boolean(wrong)));
    if (wrong) control.setAttribute("aria-describedby", said.id); // in place of the hint
    else control.removeAttribute("aria-describedby");
  }
}

/** A field that says below itself what is wrong with it; `name` is that of the problem.
 * @param {string} name @param {string} label @param {any} control @param {string} [hint] */
function checked(name, label, control, hint) {
  return h("div.checked", { "data-field": name }, field(label, control, hint), h("div.wrong", { id: freshId() }));
}

/** @param {Store} store */
function formFields(store) {
  const form = store.ui.form;
  const model = store.hello.models.find((each) => each.name === form.model) ?? store.hello.models[0];
  if (!model) return [];
  const set = (name) => (text) => {
    form[name] = text;
    store.changed("fault");
  };
  const again = (change) => {
    Object.assign(form, change);
    store.changed("form", "values");
  };
  return [
    field("fault model", modelSelect(store, model, (name) => again({ model: name, parameters: {} })), model.summary),
    h("div.note", null, model.summary, model.source ? h("details.cite", null, h("summary", null, "source"), model.source) : null),
    ...parametersOf(store, model).map((parameter) => parameterField(store, parameter)),
    ...elementFields(store, set, again),
    checked("steps", "steps", input(form.steps, set("steps"), { size: 6, placeholder: "0" }), "0, or 2,5-7,10-; counted from 0"),
    checked("seed", "seed", input(form.seed, set("seed"), { size: 6, inputmode: "numeric", placeholder: "0" }), "seed of the fault's own draws"),
    moreFields(store, set),
  ];
}

/** The parameters that mean something here: only complex numbers have parts. @param {Store} store */
function parametersOf(store, model) {
  const complex = store.dtypeOf(store.ui.row).startsWith("complex");
  return model.parameters.filter(({ name }) => name !== "part" || complex || store.ui.form.parameters[name] !== undefined);
}

/** What is typed for a selection of elements. @type {Record<string, string>} */
const ARGUMENTS = {
  count: "how many", top: "how many", fraction: "share", row: "rows", column: "columns", channel: "channels",
  tile: "rows and columns", block: "sizes", run: "how long", strided: "period", slice: "slice", where: "condition",
};

/** Which elements, and what tells them. @param {Store} store
 * @param {(name: string) => (text: string) => void} set @param {(change: any) => void} again */
function elementFields(store, set, again) {
  const { form, element, elementText } = store.ui;
  const selections = store.hello.selections ?? [];
  const selection = selections.find((each) => each.name === form.extent);
  const options = selections.map(({ name }) => [name, name === "index" ? "one element" : name]);
  const start = { count: "1" };
  const shape = store.shapeOf(store.ui.row);
  const which = form.extent === "index"
    ? checked("elements", "index", input(elementText ?? element?.join(", ") ?? "", (text) => chooseTyped(store, text), {
      "aria-label": "index of the element", placeholder: shape.map(() => 0).join(", ") || "[]" }),
    "click an element in the picture, or type its index; negative ones count from the end")
    : selection && selection.example !== null
      ? checked("elements", ARGUMENTS[form.extent] ?? "which", input(form.extentText, set("extentText"), { placeholder: selection.example }), selection.summary) : null;
  return [field("elements", select(form.extent, options, (extent) => again({ extent, extentText: start[extent] ?? "" })), selection?.summary ?? ""), which];
}

/** The trigger's rarer parts. @param {Store} store @param {(name: string) => (text: string) => void} set */
function moreFields(store, set) {
  const { form, row } = store.ui;
  const marked = (flag) => isMarked(store.trace, row, flag);
  const scopes = [["", "value"], ["storage", "storage"], ...(marked("collective") ? [["contribution", "contribution"]] : [])];
  const op = store.trace.data.ops[store.trace.columns.op[row]];
  const calls = [["", "this call"], ["every", `every call of ${clip(op, 40)}, every output`]];
  const text = (name, placeholder, hint) => checked(name, TRIGGER[name][0], input(form[name], set(name), { placeholder }), hint);
  return h("details.more", { open: store.ui.more, ontoggle: (event) => { store.ui.more = event.target.open; } },
    h("summary", null, "trigger, ranks and scope"),
    edited(store) ? null : field("calls", select(form.calls ?? "", calls, set("calls")), "which calls of the step it strikes"),
    text("probability", "1", "chance of each strike, from the fault's own draws"),
    text("times", "no limit", "how many times it strikes at most"),
    text("micro_batches", "all", "in which forwards of a step: 0, or 0,2-3; counted from 0"),
    text("ranks", "all", "on which ranks: 0, or 1-3"),
    field("scope", select(form.scope ?? "", scopes, set("scope")),
      "value: only readers of this output; storage: a view's base is written, so that the fault persists; contribution: what this rank gives"));
}

/** Every model by group; those that cannot strike here are off, with the reason.
 * @param {Store} store @param {(name: string) => void} choose_ */
function modelSelect(store, model, choose_) {
  const box = h("select.select", { onchange: () => choose_(box.value), "aria-label": "fault model" });
  const refused = store.site?.row === store.ui.row ? store.site.refused ?? {} : {};
  const groups = new Map();
  for (const { name, group } of store.hello.models) {
    if (!groups.has(group)) groups.set(group, h("optgroup", { label: group }));
    const reason = refused[name];
    groups.get(group).append(h("option", { value: name, disabled: Boolean(reason) && name !== model.name, title: reason },
      reason ? `${name} – ${clip(reason, 120)}` : name));
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
    if (text.trim()) parameters[name] = text;
    else delete parameters[name];
    store.changed("fault", "lens");
  };
  const known = parameters[name];
  const shown = known === undefined ? "" : typeof known === "object" ? JSON.stringify(known) : String(known);
  const hint = parameter.default === null ? (parameter.required ? "required" : "") : String(parameter.default);
  const choices = type === "bool" ? ["true", "false"] : parameter.choices;
  const control = choices.length
    ? select(shown, [["", hint || "–"], ...choices.map((each) => [String(each), String(each)])], set)
    : input(shown, set, { placeholder: hint, "aria-required": parameter.required });
  return checked(`parameter ${name}`, unit && unit !== name ? `${name} (${unit})` : name, control, summary);
}
