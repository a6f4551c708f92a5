/** The values of the chosen site, where they are kept: pictures and bit lens. */

import { arrayView, followDraw, markArray } from "./array.js";
import { button, fill, h } from "./dom.js";
import { bitLens } from "./lens.js";

/** @import { MakePane } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** @type {MakePane} */
export function valuesPart(view) {
  const { store } = view;
  const missing = h("div");
  const place = h("div");
  const lens = h("div");
  const el = h("div.values", null, missing, place, lens);
  let shown = ""; // which window is drawn: a stroke over it must not lose it
  const picture = () => place.querySelector(".fi-array");
  const redraw_ = () => {
    const { site, ui } = store;
    const known = !store.readonly && site?.row === ui.row;
    const values = known ? site.values : null;
    const lost = store.lost && site?.row !== ui.row; // what was read before is still there
    fill(missing, lost ? [h("div.empty", null, `no values: ${store.lost}`)] : known && !values ? [missingText(store)] : []);
    const key = values ? `${ui.row} ${values.corner} ${values.grid.length}` : "";
    if (key !== shown) fill(place, values ? [arrayView(view, site)] : []);
    else if (values) markArray(store, picture(), picture().fiPart);
    shown = key;
    fill(lens, values ? [bitLens(view, site)] : []);
    if (ui.showBits && String(site?.element?.index) === String(ui.element)) {
      ui.showBits = false;
      lens.scrollIntoView({ block: "nearest" });
    }
  };
  return {
    el,
    update(topics) {
      const has = (...names) => names.some((name) => topics.includes(name));
      if (has("trace")) shown = "";
      if (has("trace", "site", "values", "lens", "form")) redraw_();
      if (picture() && has("element", "fault", "preview", "run")) markArray(store, picture(), picture().fiPart);
      if (picture() && has("preview")) followDraw(store, picture().fiPart);
      if (has("run") && store.run && store.ui.row >= 0) {
        if (!store.ui.element) store.ui.corner = null; // look at what differs most
        store.inspect();
      }
    },
  };
}

/** Why there are no values, and how to have them. @param {Store} store */
function missingText(store) {
  const { site } = store;
  return h("div.empty", null, site.why ?? "the values of this call are not kept. ",
    site.recordable ? button("Read values", () => readValues(store), { title: "runs the golden step up to this call" }, "small") : null);
}

/** @param {Store} store */
async function readValues(store) {
  await store.tell("record", { row: store.ui.row });
  store.inspect();
}
