/** Result, third tab: loss and norms over the replayed steps. */

import { figure, figures, h, table } from "./dom.js";
import { gradientNorm, number, short } from "./numbers.js";
import { captioned, draw, plot, twin } from "./plots.js";

/** @import { View } from "./dom.js" */

/** What is drawn live, and how each is called. */
const DRAWN_LIVE = { loss: "loss", gradient_norm: "gradient norm", parameter_distance: "parameter distance<br>(relative L2)" };
const LIVE_ROW = 130; // height of a quantity, in pixels
const LIVE_GAP = 0.06; // between two, as a share of the whole
const MARKED = 60; // up to this many steps every point is marked: one alone is no line
const LIVE_RUNS = { golden: "#7a828e", faulty: "#e8590c" };

/** Each quantity of both runs that has a number, one below another, as far as the runs are; the
 * distance is that of the faulty run from the golden one. What is not finite in the faulty run
 * stands as crosses at the largest number.
 * @param {{ golden: any[], faulty: any[] }} records */
export function liveFigure(records) {
  const of = (run, name) => (run === "golden" && name === "parameter_distance" ? [] : records[run]);
  const names = Object.keys(DRAWN_LIVE).filter((name) =>
    [...of("golden", name), ...of("faulty", name)].some((each) => !Number.isNaN(number(each[name]))));
  const height = (1 - LIVE_GAP * (names.length - 1)) / names.length;
  const axis = (at) => (at ? `y${at + 1}` : "y");
  const curves = names.flatMap((name, at) => Object.entries(LIVE_RUNS).map(([run, color]) => ({
    name: run, mode: of(run, name).length > MARKED ? "lines" : "lines+markers", line: { color }, yaxis: axis(at), legendgroup: run, showlegend: at === 0,
    x: of(run, name).map((each) => each.step), y: of(run, name).map((each) => number(each[name])) })));
  const crosses = names.map((name, at) => crossesOf(records, name, axis(at))).filter((each) => each.x.length);
  const data = [...curves, ...crosses.map((each, at) => ({ ...each, showlegend: at === 0 }))];
  const layout = { height: 110 + LIVE_ROW * names.length, margin: { t: 44 }, title: { text: "training so far" }, showlegend: true,
    xaxis: { title: { text: "step" }, anchor: axis(Math.max(names.length - 1, 0)) } };
  names.forEach((name, at) => {
    const top = 1 - at * (height + LIVE_GAP);
    layout[axis(at).replace("y", "yaxis")] = { title: { text: DRAWN_LIVE[name] }, nticks: 5, rangemode: name === "parameter_distance" ? "tozero" : "normal", domain: [Math.max(top - height, 0), top] };
  });
  return { data, layout };
}

/** Where a quantity of the faulty run is NaN or Inf. @param {{ golden: any[], faulty: any[] }} records
 * @param {string} name @param {string} yaxis */
function crossesOf({ golden, faulty }, name, yaxis) {
  const finite = [...golden, ...faulty].map((each) => number(each[name])).filter(Number.isFinite);
  const bad = faulty.filter((each) => !Number.isFinite(number(each[name])));
  const top = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  return { name: "NaN or Inf (faulty)", mode: "markers", marker: { symbol: "x", size: 9, color: LIVE_RUNS.faulty }, yaxis, legendgroup: "crosses",
    x: bad.map((each) => each.step), y: bad.map(() => (Number.isFinite(top) && top !== 0 ? top : 1)),
    text: bad.map((each) => short(each[name])), hovertemplate: "faulty %{text}<extra></extra>" };
}

/** Training so far, in one place that is drawn again. @param {View} view */
function livePlot(view, records) {
  view.live ??= captioned(h("div.plot", { role: "figure", "aria-label": "training so far" }));
  draw(view, view.live.lastChild, liveFigure(records));
  return view.live;
}

/** @param {View} view */
export function trainingPanel(view) {
  const { run, steps } = view.store;
  const records = steps ?? run?.steps;
  if (!records) return [h("div.empty", null, "no result yet")];
  const faulty = new Map(records.faulty.map((each) => [each.step, each]));
  const pair = (a, b) => {
    const [first, second] = b === undefined ? [figure(a), "–"] : figures(a, b);
    return h("span", { "data-changed": b !== undefined && a !== b }, first, " → ", second);
  };
  const rows = records.golden.slice(0, 200).map((golden) => [String(golden.step),
    ...["loss", "gradient_norm", "parameter_norm"].map((name) => pair(golden[name], faulty.get(golden.step)?.[name]))]);
  return [steps ? livePlot(view, steps) : [plot(view, "training"), twin(view, "training")], table(["step", "loss", run ? gradientNorm(run.comparison) : "gradient norm", "parameter norm"], rows, "golden → faulty, by step")];
}
