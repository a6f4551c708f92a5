/** Result, third tab: loss and norms over the replayed steps. */

import { figure, figures, h, table } from "./dom.js";
import { number } from "./numbers.js";
import { draw, plot, twin } from "./plots.js";

/** @import { View } from "./dom.js" */

/** Loss of both runs, as far as they are. @param {View} view */
function livePlot(view, records) {
  const line = (name, rows, color) => ({ name, mode: "lines", line: { color },
    x: rows.map((each) => each.step), y: rows.map((each) => number(each.loss)) });
  view.live ??= h("div.plot", { role: "figure", "aria-label": "loss so far" });
  draw(view, view.live, { data: [line("golden", records.golden, "#7a828e"), line("faulty", records.faulty, "#e8590c")],
    layout: { height: 260, margin: { t: 44 }, title: { text: "loss so far" }, showlegend: true, xaxis: { title: { text: "step" } } } });
  return view.live;
}

/** @param {View} view */
export function trainingPanel(view) {
  const { run, steps } = view.store;
  const records = steps ?? run?.steps;
  if (!records) return [h("div.empty", null, "no replay yet")];
  const faulty = new Map(records.faulty.map((each) => [each.step, each]));
  const pair = (a, b) => {
    const [first, second] = b === undefined ? [figure(a), "–"] : figures(a, b);
    return h("span", { "data-changed": b !== undefined && a !== b }, first, " → ", second);
  };
  const rows = records.golden.slice(0, 200).map((golden) => [String(golden.step),
    ...["loss", "gradient_norm", "parameter_norm"].map((name) => pair(golden[name], faulty.get(golden.step)?.[name]))]);
  return [steps ? livePlot(view, steps) : [plot(view, "training"), twin(view, "training")], table(["step", "loss", "gradient norm", "parameter norm"], rows, "golden → faulty, by step")];
}
