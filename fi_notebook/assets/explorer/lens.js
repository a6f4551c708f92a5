/** The bit lens: the chosen element as bits that can be flipped. */

import { bitsText, decodeBits, fieldOf, hexText, width } from "./bits.js";
import { figure, h } from "./dom.js";
import { short } from "./numbers.js";

/** @import { View } from "./dom.js" */

/** The chosen element as its bits; a click on one shows the value that it makes.
 * @param {View} view */
export function bitLens(view, site) {
  const { store } = view;
  const dtype = store.dtypeOf(site.row);
  const size = width(dtype);
  const element = site.element;
  if (!element || !size || element.bits === null) return h("div");
  const bits = BigInt(`0x${element.bits}`);
  const form = store.ui.form;
  const flipped = form.model === "bitflip" && Number.isInteger(form.parameters.bit) ? form.parameters.bit : -1;
  const boxes = [];
  for (let bit = size - 1; bit >= 0; bit -= 1) {
    const field = fieldOf(dtype, bit);
    const value = decodeBits(dtype, bits ^ (1n << BigInt(bit)));
    boxes.push(h("button.bit", {
      type: "button", "data-field": field, "aria-pressed": bit === flipped, "data-bit": bit,
      title: `flip bit ${bit} (${field}): ${short(element.value)} → ${short(value)}`,
      onclick: () => {
        store.ui.form = { ...form, model: "bitflip", parameters: { bit }, extent: "index" };
        store.refocus = `[data-bit="${bit}"]`;
        store.changed("form", "values");
      },
    }, String((bits >> BigInt(bit)) & 1n)));
  }
  const after = flipped >= 0 && flipped < size ? decodeBits(dtype, bits ^ (1n << BigInt(flipped))) : null;
  return h("div.lens", { role: "group", "aria-label": "bits of the chosen element" },
    h("div.lenshead", null, h("span", null, `element [${element.index.join(", ")}] = `), figure(element.value, hexText(element.bits, dtype)),
      after === null ? h("span.note", null, "  click a bit to flip it") : [h("span", null, " → "), figure(after), h("span.note", null, `  ${bitsText(dtype, [flipped])}`)]),
    h("div.bits", null, boxes));
}
