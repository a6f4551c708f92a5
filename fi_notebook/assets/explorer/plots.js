/** Figures, drawn by the plotly.js that the kernel sends once per page. */

import { h } from "./dom.js";

/** @import { View } from "./dom.js" */
/** @import { Store } from "./store.js" */

export const PAGE = /** @type {any} */ (globalThis);

/** How plotly draws: its buttons are listed, so that none is there which sends a figure away. */
export const CONFIG = {
  responsive: true, displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "",
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["resetScale2d"]],
};

/** plotly.js, loaded once per page from the kernel. @param {Store} store @returns {Promise<any>} */
function plotly(store) {
  const forget = (error) => { // the next figure asks again
    PAGE.__fi_plotly = undefined;
    throw error;
  };
  PAGE.__fi_plotly ??= PAGE.Plotly && store.readonly ? Promise.resolve(PAGE.Plotly) : loadPlotly(store).catch(forget);
  return PAGE.__fi_plotly;
}

/** @param {Store} store */
async function loadPlotly(store) {
  const mine = PAGE.Plotly;
  const source = await new Promise((resolve, reject) => {
    store.onPlotly = resolve;
    store.ask("plotly").catch(reject);
  });
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    await import(/* webpackIgnore: true */ url);
  } finally {
    URL.revokeObjectURL(url);
  }
  const loaded = PAGE.Plotly;
  if (mine) PAGE.Plotly = mine;
  return loaded;
}

/** A figure's layout in the look of the page. @param {View} view */
function themed(view, layout) {
  const { width: _, ...rest } = layout;
  const template = view.store.hello.templates?.[view.root.dataset.theme ?? "light"];
  return { ...rest, autosize: true, template };
}

const HEAD = 58; // pixels that a title and a subtitle of one line each take above a figure
const HEAD_LINE = 18;
const SUBTITLE_LINE = 15;

/** The lines of a text that plotly breaks and escapes. @param {{ text?: string } | undefined} of */
function titleLines(of) {
  const text = (of?.text ?? "").replace(/<\/?b>/g, "");
  return text ? text.split("<br>").map((line) => line.replace(/&(#36|lt|gt|amp);/g, (_, name) => SIGNS[name])) : [];
}

/** @type {Record<string, string>} */
const SIGNS = { "#36": "$", lt: "<", gt: ">", amp: "&" };

/** A figure without its title, which stands above it as text of the page, and the room that it took.
 * @param {{ data: any[], layout: any }} figure */
export function untitled({ data, layout }) {
  const [title, subtitle] = [titleLines(layout.title), titleLines(layout.title?.subtitle)];
  const saved = HEAD + HEAD_LINE * Math.max(0, title.length - 1) + SUBTITLE_LINE * Math.max(0, subtitle.length - 1);
  const margin = { ...layout.margin, t: Math.max(26, (layout.margin?.t ?? 84) - saved) };
  const height = (layout.height ?? 300 + saved) - saved;
  return { title: title.join(" "), subtitle: subtitle.join(" · "), figure: { data, layout: { ...layout, title: undefined, margin, height } } };
}

/** A place of a figure below its title. */
export function captioned(place) {
  place.fiCaption = h("div.caption");
  return h("div.figure", null, place.fiCaption, place);
}

/** A place for one figure below its title; it is drawn when it can be seen.
 * @param {View} view @param {(point: any) => void} [onclick] */
export function plot(view, name, onclick) {
  const place = h("div.plot", { role: "figure", "aria-label": `${name} plot` }, h("div.wait", null, "drawing …"));
  const { figures, awaited } = view.store.figures;
  const source = figures[name];
  if (source) draw(view, place, JSON.parse(source), onclick);
  else if (!awaited) place.replaceChildren(h("div.empty", null, "no figure"));
  return captioned(place);
}

/** Draw a figure, or the newest that came while another was drawn: each is drawn to its end, so
 * that a page which is told of more than it can draw still shows something.
 * @param {View} view @param {(point: any) => void} [onclick] */
export async function draw(view, place, parsed, onclick) {
  place.fiNext = parsed;
  if (onclick) place.fiClick = onclick;
  if (place.fiDrawing) return;
  place.fiDrawing = true;
  try {
    const library = await plotly(view.store);
    await new Promise(requestAnimationFrame);
    while (place.isConnected && place.fiNext) await drawNext(view, place, library);
  } catch (error) {
    place.replaceChildren(h("div.empty", null, `the figure could not be drawn: ${error}`));
  }
  place.fiDrawing = false;
}

/** @param {View} view */
async function drawNext(view, place, library) {
  const next = place.fiNext;
  place.fiNext = null;
  if (!place.fiPlot) place.replaceChildren();
  const { data, layout } = place.fiCaption ? withCaption(place, next) : next;
  place.style.height = `${layout.height ?? 300}px`;
  const drawn = library.react(place, data, marked(place, themed(view, layout)), CONFIG);
  if (!place.fiPlot) place.on("plotly_click", (event) => place.fiClick?.(event.points[0])); // before it can be seen
  await drawn;
  place.fiPlot = next;
}

/** A figure without its title, which is put above it. @param {{ data: any[], layout: any }} titled */
function withCaption(place, titled) {
  const { title, subtitle, figure } = untitled(titled);
  place.fiCaption.replaceChildren(h("strong", null, title), " ", h("span.note", null, subtitle));
  return figure;
}

/** A layout with the line of `markAt`. */
function marked(place, layout) {
  if (place.fiMark === undefined) return layout;
  const line = { type: "line", x0: place.fiMark, x1: place.fiMark, yref: "paper", y0: 0, y1: 1, line: { color: "#8a8f98", width: 1.5, dash: "dot" } };
  return { ...layout, shapes: [...(layout.shapes ?? []), line] };
}

/** Mark one place on the horizontal axis of a figure. @param {View} view @param {number} x */
export async function markAt(view, place, x) {
  place.fiMark = x;
  if (!place.fiPlot) return; // drawn soon, with the mark
  const { shapes } = marked(place, place.fiPlot.layout);
  await (await plotly(view.store)).relayout(place, { shapes });
}

/** Draw every figure of a view again, in the colours that the page has now. @param {View} view */
export function redraw(view) {
  for (const place of view.root.querySelectorAll(".fi-plot")) {
    if (!place.fiPlot || !place.clientWidth) continue;
    draw(view, place, place.fiNext ?? place.fiPlot);
  }
}

/** The text twin of a figure. @param {View} view */
export function twin(view, name) {
  const text = view.store.figures.texts[name];
  return text ? h("details.twin", null, h("summary", null, "as text"), h("pre", null, text)) : null;
}
