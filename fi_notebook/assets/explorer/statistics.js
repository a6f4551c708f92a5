/** Statistics of tensors: whole numbers in full, a dash where no element is finite. */

import { figure, h } from "./dom.js";
import { isWhole, number, pairText } from "./numbers.js";

const EXTREMES = ["min", "max"];
const COUNTS = ["nan", "posinf", "neginf", "zeros"];

/** Whether a statistic of a dtype is a whole number. @param {string} name @param {string} dtype */
function whole(name, dtype) {
  return COUNTS.includes(name) || (EXTREMES.includes(name) && isWhole(dtype));
}

/** A statistic before and after as text, in enough digits to see whether it differs.
 * @param {string} name @param {string} dtype @returns {string[]} */
export function statisticTexts(name, before, after, dtype) {
  const texts = pairText(number(before), number(after), whole(name, dtype) ? "int64" : "");
  return [before, after].map((each, at) => (Number.isNaN(number(each)) ? "–" : texts[at]));
}

/** The same, exact on hover. @param {string} name @param {string} dtype */
export function statisticPair(name, before, after, dtype) {
  const texts = statisticTexts(name, before, after, dtype);
  return [before, after].map((each, at) => (texts[at] === "–" ? h("span.num", { title: "no element is finite" }, "–")
    : figure(each, "", texts[at])));
}

/** One statistic. @param {string} name @param {string} dtype */
export function statistic(name, value, dtype) {
  return statisticPair(name, value, value, dtype)[0];
}
