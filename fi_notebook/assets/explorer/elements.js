/** A table of elements before and after, with the bits that differ. */

import { bitsText, changedBits, hexText, ulps, wholeValue } from "./bits.js";
import { figure, figures, h, table } from "./dom.js";

/** Elements before and after, with the bits that differ and the distance in representable values.
 * @param {string} dtype */
export function elementTable(elements, dtype, label = "changed elements") {
  if (!elements.length) return null;
  return table(["element", "before", "after", "bits", "ULPs"], elements.map(({ index, before, after, bits }) => [
    h("span.num", null, `[${index.join(", ")}]`), ...valuesOf(before, after, bits, dtype), ...bitsCells(bits, dtype)]), label);
}

/** Both values, told apart; those of integers in full. @param {(string | null)[]} bits @param {string} dtype */
function valuesOf(before, after, bits, dtype) {
  return figures(wholeValue(dtype, bits[0], before), wholeValue(dtype, bits[1], after), dtype);
}

/** @param {(string | null)[]} bits @param {string} dtype */
function bitsCells(bits, dtype) {
  if (bits.some((each) => each === null)) return ["–", "–"];
  const [before, after] = bits.map((each) => BigInt(`0x${each}`));
  const moved = ulps(dtype, before, after);
  return [
    h("span", null, h("span.mono.whole", null, hexText(bits[0], dtype)), h("span.mono", null, " → "),
      h("span.mono.whole", null, hexText(bits[1], dtype)), " ", h("span.note", null, bitsText(dtype, changedBits(before, after)))),
    moved === null ? "–" : figure(moved, "representable values"),
  ];
}
