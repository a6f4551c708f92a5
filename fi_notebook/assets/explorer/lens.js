/** The bit lens: the chosen element as bits that can be flipped. */

import { bitsText, decodeBits, fieldOf, hexText, wholeValue, width } from "./bits.js";
import { figure, h } from "./dom.js";
import { pairText } from "./numbers.js";
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
  const after = flipped >= 0 && flipped < size ? flippedValue(dtype, bits, flipped) : null;
  const value = wholeValue(dtype, element.bits, element.value);
  const [now, then] = pairText(value, after ?? value, dtype);
  return h("div.lens", { role: "group", "aria-label": "bits of the chosen element" },
    h("div.lenshead", null, h("span", null, `element [${element.index.join(", ")}] = `), figure(element.value, hexText(element.bits, dtype), now),
      after === null ? h("span.note", null, "  click a bit to flip it") : [h("span", null, " → "), figure(after, "", then), h("span.note", null, `  ${bitsText(dtype, [flipped])}`)]),
    h("div.bits", { role: "toolbar", "aria-label": "bits, highest first", onkeydown: bitKey },
      bitBoxes(store, dtype, bits, value, flipped)));
}

/** The value with one bit flipped, whole numbers in full. @param {string} dtype @param {bigint} bits */
function flippedValue(dtype, bits, bit) {
  const made = bits ^ (1n << BigInt(bit));
  return wholeValue(dtype, made.toString(16), decodeBits(dtype, made));
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
    const made = flippedValue(dtype, bits, bit);
    const title = `flip bit ${bit} (${field}): ${pairText(value, made, dtype).join(" → ")}`;
    return h("button.bit", {
      type: "button", "data-field": field, "data-bit": bit, "data-key": bit, title,
      "aria-label": `${is}, ${title}`, "aria-pressed": bit === flipped, tabindex: bit === reached ? 0 : -1, disabled: Boolean(store.lost),
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
