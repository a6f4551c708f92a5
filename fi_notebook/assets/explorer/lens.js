/** The bit lens: the chosen element as bits that can be flipped. */

import { bitsText, decodeBits, fieldOf, fieldsOf, hexText, undrawnText, wholeValue, width } from "./bits.js";
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
  if (!size) return h("div.note", null, undrawnText(dtype));
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
    h("div.bitkey", null, fieldsOf(dtype).map(([name, from, to]) => h("span", { "data-field": name }, `${name} ${from === to ? from : `${from}–${to}`}`))),
    h("div.bits", { role: "toolbar", "aria-label": "bits, highest first", onkeydown: bitKey, "data-nine": rowsAfterSign(dtype) },
      bitBoxes(store, dtype, bits, value, flipped)));
}

/** The value with one bit flipped, whole numbers in full. @param {string} dtype @param {bigint} bits */
function flippedValue(dtype, bits, bit) {
  const made = bits ^ (1n << BigInt(bit));
  return wholeValue(dtype, made.toString(16), decodeBits(dtype, made));
}

/** Whether eight boxes in a row would break the exponent, but for the sign before it.
 * @param {string} dtype */
function rowsAfterSign(dtype) {
  const [first, second] = fieldsOf(dtype);
  return first[0] === "sign" && second?.[1] - second?.[2] === 7;
}

/** What is written above a box: its number, where a field or a row begins. @param {string} dtype */
function numberAbove(dtype, bit) {
  const begins = fieldsOf(dtype).some(([, from]) => from === bit);
  const narrow = rowsAfterSign(dtype) ? (width(dtype) - 2 - bit) % 8 === 0 : bit % 8 === 7;
  return { "data-narrow": begins || narrow ? bit : null, "data-wide": begins || bit % 8 === 7 ? bit : null, "data-row": narrow };
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
      type: "button", "data-field": field, ...numberAbove(dtype, bit), "data-bit": bit, "data-key": bit, title,
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
