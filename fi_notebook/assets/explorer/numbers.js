/** Numbers and names as text. */

/** JSON has no NaN and no infinity: they travel as text. @returns {number} */
export function number(value) {
  if (typeof value === "number") return value;
  const words = { inf: Infinity, "-inf": -Infinity };
  return value in words ? words[value] : Number(value);
}

/** A number in four significant digits, or as many as are asked for; a complex one by its parts.
 * @param {number} [digits] @returns {string} */
export function short(value, digits = 4) {
  const parts = partsOf(value);
  if (parts) return complexText(parts, digits);
  if (typeof value === "string" && Number.isNaN(number(value)) && value !== "nan") return value;
  if (typeof value === "boolean") return String(value);
  if (typeof value === "bigint") return wholeText(value);
  const x = number(value);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "Inf" : "−Inf";
  if (x === 0) return Object.is(x, -0) ? "−0" : "0";
  const size = Math.abs(x);
  const plain = size >= 1e-3 && size < 1e5;
  const text = Number.isInteger(x) && size < 1e5 ? String(x)
    : plain ? String(Number(x.toPrecision(digits))) : x.toExponential(digits - 1).replace("e+", "e");
  return text.replace("-", "−").replace("e-", "e−");
}

const PART = "(?:\\d[\\d.]*(?:e[+-]?\\d+)?|nan|inf)";
const COMPLEX = new RegExp(`^\\(?(?:([+-]?${PART})(?=[+-]))?([+-]?${PART})j\\)?$`);

/** Real and imaginary part of a complex number as Python writes it: `(1-2.5j)`, `1j`; else null.
 * @returns {string[] | null} */
export function partsOf(value) {
  const found = typeof value === "string" ? COMPLEX.exec(value) : null;
  return found && [found[1] ?? "0", found[2]];
}

/** @param {string[]} parts @param {number} digits */
function complexText([real, imaginary], digits) {
  const text = short(number(imaginary.replace("+", "")), digits);
  return `${short(number(real.replace("+", "")), digits)}${/^[−+]/.test(text) ? "" : "+"}${text}j`;
}

/** A whole number in full. @param {number | bigint} value */
export function wholeText(value) {
  return value < 0 ? `−${count(-value)}` : count(value);
}

/** Two numbers in four significant digits, or in as many as it takes to see that they differ.
 * @returns {[string, string]} */
export function toldApart(first, second) {
  for (let digits = 4; digits < 18; digits += 1) {
    const texts = [short(first, digits), short(second, digits)];
    if (texts[0] !== texts[1]) return [texts[0], texts[1]];
  }
  return [short(first), short(second)];
}

/** Two values of a dtype as they are shown beside each other: whole numbers in full.
 * @param {string} [dtype] @returns {[string, string]} */
export function pairText(before, after, dtype = "") {
  const whole = isWhole(dtype) && [before, after].every((each) => typeof each === "bigint" || Number.isSafeInteger(each));
  return whole ? [wholeText(before), wholeText(after)] : toldApart(before, after);
}

/** Whether the elements of a dtype are whole numbers. @param {string} dtype */
export function isWhole(dtype) {
  return /^u?int\d/.test(dtype);
}

/** Whether a number, or both parts of a complex one, are finite. */
export function isFiniteNumber(value) {
  return (partsOf(value) ?? [value]).every((each) => Number.isFinite(number(each)));
}

/** How far the faulty value is from the golden one; to NaN and Inf there is no distance. */
export function farText(golden, faulty, far) {
  return isFiniteNumber(golden) && isFiniteNumber(faulty) ? short(far) : "–";
}

/** A number in full, as Python writes it. */
export function exact(value) {
  if (typeof value === "bigint" || partsOf(value)) return String(value);
  const x = number(value);
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  return Object.is(x, -0) ? "-0.0" : String(x);
}

/** A count with commas between thousands, as Python's texts have them.
 * @param {number | bigint} n */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** A part of a whole as a percentage; of what is there it never says 0, nor 100 of less than all.
 * @param {number} part @param {number} whole */
export function shareText(part, whole) {
  const share = (100 * part) / whole;
  const text = share > 0 && share < 0.1 ? "<0.1" : share < 100 && share > 99.9 ? ">99.9" : short(share);
  return `${text}\u00a0%`;
}

/** `1 site`, `3 sites`. @param {number} n @param {string} noun */
export function plural(n, noun) {
  return `${count(n)} ${n === 1 ? noun : several(noun)}`;
}

/** `sites`, `batches`. @param {string} noun */
export function several(noun) {
  return `${noun}${/(s|x|ch|sh)$/.test(noun) ? "es" : "s"}`;
}

/** A long text by its two ends. @param {string} text @param {number} [longest] */
export function clip(text, longest = 160) {
  if (text.length <= longest) return text;
  const half = Math.floor(longest / 2) - 1;
  return `${text.slice(0, half)} … ${text.slice(-half)}`;
}

/** @param {number[]} shape */
export function shapeText(shape) {
  return shape.length ? `[${shape.join(", ")}]` : "scalar";
}

/** The short name of a dtype. @param {string} dtype */
export function dtypeText(dtype) {
  return dtype.replace("bfloat", "bf").replace("float", "f").replace("complex", "c")
    .replace("uint", "u").replace("int", "i");
}

/** What is shown as the norm of the gradients: what the optimizer finds. */
export function gradientNorm({ clipped }) {
  return clipped ? "gradient norm, clipped" : "gradient norm";
}
