/** What came of a campaign so far: progress, rates, pictures, rows. Shown by a view of its own
 * and by the explorer's sweep tab. */

import { button, fill, h, table } from "./dom.js";
import { count } from "./numbers.js";
import { captioned, draw } from "./plots.js";
import { GONE } from "./wire.js";

/** @import { View } from "./dom.js" */

const HEADS = ["outcome", "injections", "rate", "95 % interval"];

/** @param {View} view @param {((row: any) => void) | null} arm arms the fault of a row */
export function campaignPart(view, arm = null) {
  const words = h("div.words", { role: "status" });
  const bar = h("progress.progress", { max: 1, value: 0, "aria-label": "progress of the campaign" });
  const rates = h("div.rates");
  const plots = h("div.plots");
  const broken = h("div.broken");
  const rows = h("div.worst");
  const el = h("div.campaign", null, h("div.words", null, words, bar), rates, plots, broken, rows);
  /** @type {Map<string, any>} */
  const places = new Map();
  return {
    el,
    update(frame, pictures) {
      fill(words, wordsOf(frame));
      bar.hidden = frame.state !== "running";
      bar.value = frame.planned ? frame.done / frame.planned : 0;
      fill(rates, frame.rates?.length ? [table(HEADS, frame.rates, "rates of the outcomes")] : []);
      drawAll(view, plots, places, pictures);
      fill(broken, undrawn(pictures).map((line) => h("div.warning", null, line)));
      fill(rows, changedRows(frame, arm));
    },
  };
}

/** How far it came, in words. */
function wordsOf(frame) {
  if (!frame.state) return [h("span", null, "waiting for the kernel")];
  return [h("span.chip", { "data-state": { running: "live", [GONE]: "lost" }[frame.state] ?? "ended" }, frame.state), " ",
    h("span", null, frame.words), frame.early ? h("span.note", null, ` · ${frame.early}`) : null];
}

/** Each picture in a place of its own, which stays while there is more to draw.
 * @param {View} view @param {Map<string, any>} places */
function drawAll(view, plots, places, { figures = {}, texts = {} } = {}) {
  for (const [name, source] of Object.entries(figures)) {
    if (!places.has(name)) {
      const plot = h("div.plot", { role: "figure", "aria-label": name });
      const twin = h("pre");
      places.set(name, { plot, twin, source: "", parsed: null });
      plots.append(captioned(plot), h("details.twin", null, h("summary", null, "as text"), twin));
    }
    const place = places.get(name);
    place.twin.textContent = texts[name] ?? "";
    if (place.source !== source) Object.assign(place, { source, parsed: JSON.parse(source) });
    if (place.plot.fiPlot !== place.parsed) draw(view, place.plot, place.parsed);
  }
}

/** What is said of the pictures that could not be drawn. */
export function undrawn({ figures = {}, texts = {} } = {}) {
  return Object.keys(texts).filter((name) => !(name in figures)).map((name) => `${name}: ${texts[name]}`);
}

/** Some rows whose result is another, to be opened one by one. */
function changedRows(frame, arm) {
  if (!frame.rows?.length) return [];
  const losses = frame.rows.some((row) => row.loss);
  const heads = [...(arm ? [""] : []), "injection", "site", "fault", "elements", "first value", ...(losses ? ["loss"] : []), "outcome"]; // Arm first: the last may be out of sight
  const cells = frame.rows.map((row) => [
    ...(arm ? [button("Arm", () => arm(row), { "aria-label": `arm the fault of injection ${row.id}` }, "small")] : []), String(row.id), row.site, row.what, row.elements, h("span.num", null, row.change), ...(losses ? [h("span.num", null, row.loss)] : []),
    h("span", { title: row.reason }, row.outcome)]);
  const title = "Injections that changed the result";
  const most = frame.changed > frame.rows.length ? `: ${frame.rows.length} of ${count(frame.changed)}` : "";
  return [h("h4", null, `${title}${most}`), losses ? h("div.note", null, "crashes and NaN first, then by how much the loss changed") : null,
    h("div.scroll", null, table(heads, cells, title))];
}
