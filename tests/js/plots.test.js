import assert from "node:assert/strict";
import { test } from "node:test";
import { draw } from "../../fi_notebook/assets/explorer/plots.js";

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
