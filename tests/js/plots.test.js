import assert from "node:assert/strict";
import { test } from "node:test";
import { draw, untitled } from "../../fi_notebook/assets/explorer/plots.js";

globalThis.requestAnimationFrame = (act) => act();
globalThis.Plotly = { react: async () => {} };

const view = { store: { readonly: true, hello: {} }, root: { dataset: {} } };
const figure = () => ({ data: [], layout: {} });

/** A place for a figure, and a click on it. */
function placed() {
  const listeners = [];
  const place = { isConnected: true, style: {}, replaceChildren() {}, on: (event, hear) => listeners.push([event, hear]) };
  return { place, click: (point) => listeners.forEach(([event, hear]) => event === "plotly_click" && hear({ points: [point] })) };
}

test("a figure that is drawn three times tells of a click once, to who drew it last", async () => {
  const { place, click } = placed();
  const heard = [];
  for (const who of ["first", "second"]) await draw(view, place, figure(), (point) => heard.push([who, point]));
  await draw(view, place, figure()); // in other colours: who hears stays
  click(7);
  assert.deepEqual(heard, [["second", 7]]);
});

test("a click on a figure that nobody listens to is no error", async () => {
  const { place, click } = placed();
  await draw(view, place, figure());
  assert.doesNotThrow(() => click(7));
});

test("a figure gives its title to the page, and the room that the title took", () => {
  const layout = { height: 450, margin: { t: 123, b: 9 }, title: { text: "<b>a</b> &lt;b&gt;<br>c", subtitle: { text: "x<br>y" } } };
  const { title, subtitle, figure } = untitled({ data: [], layout });
  assert.deepEqual([title, subtitle], ["a <b> c", "x · y"]);
  assert.deepEqual(figure.layout, { height: 359, margin: { t: 32, b: 9 }, title: undefined }); // 58 + 18 + 15 = 91
});
