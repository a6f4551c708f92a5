/** The bit lens: the chosen element as bits that can be flipped. */

import { bitsText, decodeBits, fieldOf, hexText, width } from "./bits.js";
import { figure, h } from "./dom.js";
import { short } from "./numbers.js";
import { wholeIn } from "./reading.js";

/** @import { View } from "./dom.js" */
/** @import { Store } from "./store.js" */

/** The chosen element as its bits; a click on one shows the value that it makes.
 * @param {View} view */
export function bitLens(view, site) {
  const { store } = view;
  const dtype = store.dtypeOf(site.row);
  const size = width(dtype);
  const element = store.ui.element ? site.element : null;
  if (!size) return h("div.note", null, `${dtype} has no bit lens`);
  if (!element || element.bits === null) return h("div.note", null, "Choose an element to see its bits, and to flip one.");
  const bits = BigInt(`0x${element.bits}`);
  const { model, parameters, extent } = store.ui.form;
  const bit = model === "bitflip" && extent === "index" ? wholeIn(parameters.bit) : -1;
  const flipped = Number.isInteger(bit) ? bit : -1;
  const after = flipped >= 0 && flipped < size ? decodeBits(dtype, bits ^ (1n << BigInt(flipped))) : null;
  return h("div.lens", { role: "group", "aria-label": "bits of the chosen element" },
    h("div.lenshead", null, h("span", null, `element [${element.index.join(", ")}] = `), figure(element.value, hexText(element.bits, dtype)),
      after === null ? h("span.note", null, "  click a bit to flip it") : [h("span", null, " → "), figure(after), h("span.note", null, `  ${bitsText(dtype, [flipped])}`)]),
    h("div.bits", { role: "toolbar", "aria-label": "bits, highest first", onkeydown: bitKey },
      bitBoxes(store, dtype, bits, element.value, flipped)));
}

/** One box per bit; the arrow keys go from one to the next.
 * @param {Store} store @param {string} dtype @param {bigint} bits @param {number} flipped */
function bitBoxes(store, dtype, bits, value, flipped) {
  const top = width(dtype) - 1;
  const reached = flipped >= 0 && flipped <= top ? flipped : top;
  return Array.from({ length: top + 1 }, (_, at) => {
    const bit = top - at;
    const field = fieldOf(dtype, bit);
    const is = String((bits >> BigInt(bit)) & 1n);
    const made = decodeBits(dtype, bits ^ (1n << BigInt(bit)));
    const title = `flip bit ${bit} (${field}): ${short(value)} → ${short(made)}`;
    return h("button.bit", {
      type: "button", "data-field": field, "data-bit": bit, "data-key": bit, title,
      "aria-label": `${is}, ${title}`, "aria-pressed": bit === flipped, tabindex: bit === reached ? 0 : -1,
      onclick: () => {
        store.ui.form = { ...store.ui.form, model: "bitflip", parameters: { bit }, extent: "index" };
        store.changed("form", "values");
      },
    }, is);
  });
}

/** @param {KeyboardEvent} event */
function bitKey(event) {
  const box = /** @type {any} */ (event.target);
  const to = { ArrowLeft: box.previousElementSibling, ArrowRight: box.nextElementSibling,
    Home: box.parentElement.firstElementChild, End: box.parentElement.lastElementChild }[event.key];
  if (!to) return;
  event.preventDefault();
  to.focus();
}
