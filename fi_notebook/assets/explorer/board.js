/** The live view of a campaign: entry point of its widget. All that it shows is the model's state. */

import { campaignPart } from "./campaign.js";
import { button, h } from "./dom.js";
import { hostOf, stand } from "./live.js";
import { redraw } from "./plots.js";
import { GONE, PRIMED, controlOf } from "./wire.js";

/** Draw a campaign into an element. @param {any} model @param {HTMLElement} el */
function mountCampaign(model, el) {
  const root = h("div.explorer.board", { "data-lm-suppress-shortcuts": "true", role: "region", "aria-label": "campaign" });
  const view = /** @type {any} */ ({ store: hostOf(model), root, say: () => {} });
  const part = campaignPart(view);
  const control = controlOf(model);
  const send = (kind) => control.then((by) => by.send({ kind })).catch(() => {});
  const stop = button("Stop", () => send("stop"), { title: "what is done is kept" });
  root.append(h("div.head", null, h("h3.title", null, "campaign"), stop), part.el);
  const away = stand(model, el, view, "change:_frame change:_pictures", (gone) => {
    const frame = JSON.parse(model.get("_frame"));
    part.update(gone ? { ...frame, state: GONE } : frame, JSON.parse(model.get("_pictures")));
    stop.disabled = gone || frame.state !== "running";
  }, () => redraw(view));
  for (const wait of PRIMED) setTimeout(() => send("ping"), wait);
  return away;
}

export default {
  /** @param {{ model: any, el: HTMLElement }} context */
  render({ model, el }) {
    return mountCampaign(model, el);
  },
};
