/** Entry points: the widget for anywidget, and the exported report. */

import { mount } from "./mount.js";
import { PAGE } from "./plots.js";
import { Store } from "./store.js";
import { GONE, PRIMED, Wire, controlOf, inflate, isGone, unpack } from "./wire.js";

/** One store per widget, whatever the number of its views. @type {Map<string, Store>} */
const STORES = new Map();

function storeOf(model) {
  const key = model.get("_key");
  const known = STORES.get(key);
  if (known) return known;
  const control = controlOf(model);
  const store = new Store((content) => control.then((by) => by.send(content)));
  const wire = new Wire((message) => store.receive(message), () => store.resync(),
    (error) => store.note("error", `a message could not be read: ${error}`));
  model.on("msg:custom", (content, buffers) => wire.receive(content, buffers));
  model.on("comm_live_update", () => isGone(model, true) && store.lose(GONE));
  model.on("comm:close", () => store.lose("the explorer was closed"));
  STORES.set(key, store);
  for (const wait of PRIMED) setTimeout(() => store.tell("ping"), wait);
  store.tell("ready", { plotly: Boolean(PAGE.__fi_plotly) });
  return store;
}

export default {
  /** @param {{ model: any }} context */
  initialize({ model }) {
    storeOf(model);
    return () => STORES.delete(model.get("_key"));
  },
  /** @param {{ model: any, el: HTMLElement }} context */
  render({ model, el }) {
    return mount(storeOf(model), el);
  },
};

/** Open an exported report: the same messages, from the file instead of a kernel.
 * @param {HTMLElement} el @param {{ head: number, block: string, deflated: boolean }[]} messages */
export async function openReport(el, messages) {
  const store = new Store(() => {}, true);
  for (const { head, block, deflated } of messages) {
    const bytes = Uint8Array.from(atob(block), (c) => c.charCodeAt(0));
    store.receive(unpack(head, deflated ? await inflate(bytes) : bytes));
  }
  mount(store, el);
  const struck = store.run?.injections[0]?.row ?? -1;
  if (struck >= 0) store.reveal(struck);
}
