/** The fault that the form describes: as a request, and in words. */

import { siteText } from "./names.js";
import { typed } from "./numbers.js";

/** @import { Store } from "./store.js" */

/** The fault as the kernel is asked for it. @param {Store} store @param {number} row */
export function requestOf(store, row) {
  const { model, parameters, steps, seed, probability, times, scope, ranks, micro_batches, calls } = store.ui.form;
  return {
    site: calls === "every" ? siteText(store.trace, row).replace(/\*.*$/, "") : siteText(store.trace, row), model, parameters, elements: extentOf(store),
    steps: steps.trim() || "0", seed: Number(seed) || 0,
    ...(probability ? { probability: Number(probability) } : {}),
    ...(times ? { times: Number(times) } : {}),
    ...(scope ? { scope } : {}),
    ...(ranks?.trim() ? { ranks: ranks.trim() } : {}),
    ...(micro_batches?.trim() ? { micro_batches: micro_batches.trim() } : {}),
  };
}

/** The elements that the form describes.
 * @param {Store} store @returns {string | Record<string, any>} */
export function extentOf(store) {
  const { extent, extentText } = store.ui.form;
  if (extent === "index") {
    if (!store.ui.element) throw new Error("no element is chosen: click one in the picture, or type its index");
    return { index: store.ui.element };
  }
  const value = typed("value", String(extentText));
  return value === null ? extent : { [extent]: value };
}

/** The fault in words: `bitflip(bit=30) on element [0, 3], step 0`. @param {Store} store */
export function faultText(store) {
  const { model, parameters, steps, probability, ranks, calls } = store.ui.form;
  const given = Object.entries(parameters).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return [`${model}${given.length ? `(${given.join(", ")})` : ""} on ${extentText(store)}`, calls === "every" ? "every call" : "", `step ${steps.trim() || "0"}`,
    probability ? `probability ${probability}` : "", ranks?.trim() ? `rank ${ranks}` : ""].filter(Boolean).join(", ");
}

/** @param {Store} store */
function extentText(store) {
  const { extent, extentText: text } = store.ui.form;
  if (extent === "all") return "all elements";
  if (extent === "index") return store.ui.element ? `element [${store.ui.element.join(", ")}]` : "one element, not yet chosen";
  if (extent === "count") return `${text} drawn element${text === "1" ? "" : "s"}`;
  const given = typed("value", String(text));
  if (Array.isArray(given?.at)) return `${extent} of ${given.shape.join(" × ")} at [${given.at.join(", ")}]`;
  if (Number.isInteger(given?.start)) return `run of ${given.length} from ${given.start}`;
  return `${extent} ${text}`.replaceAll('"', "").trim();
}
