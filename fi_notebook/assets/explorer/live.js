/** What widgets share that hold all they show in their model's state. */

import { watchTheme } from "./theme.js";
import { inflate, isGone } from "./wire.js";

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

/** Put a view into an element: drawn anew when the model's state, the theme or its size changes.
 * @param {any} model @param {HTMLElement} el @param {any} view
 * @param {string} changes events of the state that it shows
 * @param {(gone: boolean) => any} work draws the state; gone is whether the kernel is
 * @param {() => void} [resized] draws it in another size, where that is less than all of it
 * @returns {() => void} takes it away */
export function stand(model, el, view, changes, work, resized) {
  const { root } = view;
  let gone = isGone(model, false);
  const show = latestWins(() => work(gone));
  const toldOf = () => {
    gone = isGone(model, true);
    show();
  };
  model.on(changes, show);
  model.on("comm_live_update", toldOf);
  root.addEventListener("keydown", (event) => event.key === "Escape" || event.stopPropagation());
  el.append(root);
  const unwatch = watchTheme(view);
  const sized = new ResizeObserver(resized ?? show);
  sized.observe(root);
  show();
  return () => {
    model.off(changes, show);
    model.off("comm_live_update", toldOf);
    sized.disconnect();
    unwatch();
    root.remove();
  };
}
