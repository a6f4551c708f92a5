/** A table of elements before and after, with the bits that differ. */

import { bitsText, changedBits, hexText } from "./bits.js";
import { figure, h, table } from "./dom.js";

/** Elements before and after, with the bits that differ. @param {string} dtype */
export function elementTable(elements, dtype, label = "changed elements") {
  return table(["element", "before", "after", "bits"], elements.map(({ index, before, after, bits }) => [
    h("span.num", null, `[${index.join(", ")}]`), figure(before), figure(after), bitsCell(bits, dtype)]), label);
}

/** @param {(string | null)[]} bits @param {string} dtype */
function bitsCell(bits, dtype) {
  const [before, after] = bits;
  if (before === null || after === null) return "–";
  const changed = changedBits(BigInt(`0x${before}`), BigInt(`0x${after}`));
  return h("span", null, h("span.mono", null, `${hexText(before, dtype)} → ${hexText(after, dtype)} `), h("span.note", null, bitsText(dtype, changed)));
}
