/** The live view of a watch: entry point of its widget. All that it shows is the model's state. */

import { fill, h, select, table } from "./dom.js";
import { hostOf, stand } from "./live.js";
import { draw } from "./plots.js";
import { GONE } from "./wire.js";

/** A figure with the points that moved since it was made.
 * @param {{ data: any[], layout: any }} figure @param {Record<number, any>} points */
export function merged(figure, points) {
  return { ...figure, data: figure.data.map((trace, at) => ({ ...trace, ...points[at] })) };
}

/** What is to be said aloud of a frame, after the one before. */
export function spoken(before, frame) {
  const more = (frame.count ?? 0) - (before.count ?? 0);
  if (more <= 0) return "";
  return `${more === 1 ? "a new alert" : `${more} new alerts`}; the first of all: ${frame.alerts[0]}`;
}

/** The words about a frame: how far it came, and what can no longer come. */
function headOf(frame, gone) {
  const [kind, state] = gone ? ["lost", `${GONE}; this is the last step that it sent`]
    : frame.closed ? ["ended", "closed"] : ["live", "watching"];
  return [h("h3.title", null, "watch"), h("span.found", null, frame.words ?? ""),
    h("span.chip", { "data-state": kind }, state)];
}

/** The alerts, or nothing. */
function alertsOf(frame) {
  if (!frame.count) return [];
  const title = frame.count === 1 ? "1 alert" : `${frame.count} alerts`;
  return [h("div.bad", null, `⚠ ${title}: NaN or Inf`),
    h("ul.list", null, frame.alerts.map((line) => h("li", null, line)))];
}

/** The last step of each site, and what was not read. */
function lastStep(frame) {
  if (!frame.rows?.length) return [h("div.empty", null, "nothing was read yet: train the model")];
  const rows = frame.rows.map(([site, phase, module, ...numbers], at) => {
    const [name, path] = frame.names[at];
    return [named(site, name), phase, named(module, path), ...numbers];
  });
  return [table(frame.header, rows, "last step of each site"),
    [...frame.unread, ...frame.notes].map((line) => h("div.note", null, line))];
}

/** A name that may have been cut, in full on hover. */
function named(text, name) {
  return h("span", { title: name }, text);
}

/** Draw a watch into an element. @param {any} model @param {HTMLElement} el */
function mountWatch(model, el) {
  const live = h("div.live", { "aria-live": "assertive" });
  const head = h("div.words");
  const choice = select(model.get("statistic"), model.get("_statistics").map((name) => [name, name]), (name) => {
    model.set("statistic", name);
    model.save_changes();
  }, { "aria-label": "statistic" });
  const alerts = h("div.warned");
  const place = h("div.plot", { role: "figure", "aria-label": "statistics step by step" });
  const last = h("div.last", { tabindex: 0, role: "region", "aria-label": "last step of each site" });
  const root = h("div.explorer.watch", { "data-lm-suppress-shortcuts": "true", role: "region", "aria-label": "watch" },
    h("div.head", null, head, choice), alerts, place, last, live);
  const view = /** @type {any} */ ({ store: hostOf(model), root, say: () => {} });
  let before = {};
  return stand(model, el, view, "change:_frame change:_figure", (gone) => {
    const frame = JSON.parse(model.get("_frame"));
    const text = model.get("_figure");
    live.textContent = spoken(before, frame) || live.textContent;
    before = frame;
    fill(head, headOf(frame, gone));
    fill(alerts, alertsOf(frame));
    fill(last, lastStep(frame));
    choice.value = model.get("statistic");
    if (text) draw(view, place, merged(JSON.parse(text), frame.points ?? {}));
  });
}

export default {
  /** @param {{ model: any, el: HTMLElement }} context */
  render({ model, el }) {
    return mountWatch(model, el);
  },
};
