/** What widgets share that hold all they show in their model's state. */

import { inflate } from "./wire.js";

/** plotly.js, which stands in a model of its own. */
async function sharedSource(model) {
  const shared = await model.widget_manager.get_model(model.get("_plotly"));
  const view = shared.get("_deflated");
  return inflate(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
}

/** What a figure asks of a store. */
export function hostOf(model) {
  const host = {
    readonly: false,
    hello: { templates: JSON.parse(model.get("_templates")) },
    onPlotly: null,
    ask: async () => host.onPlotly(await sharedSource(model)),
  };
  return host;
}

/** Runs a piece of work once per frame of the page; what is asked meanwhile is done after it. */
export function latestWins(work) {
  let due = false;
  let running = false;
  const run = async () => {
    running = true;
    while (due) {
      due = false;
      await new Promise(requestAnimationFrame);
      await work();
    }
    running = false;
  };
  return () => {
    due = true;
    if (!running) run();
  };
}
