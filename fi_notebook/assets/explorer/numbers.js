/** Numbers and names as text, and what a person typed as a value. */

/** JSON has no NaN and no infinity: they travel as text. @returns {number} */
export function number(value) {
  if (typeof value === "number") return value;
  const words = { inf: Infinity, "-inf": -Infinity };
  return value in words ? words[value] : Number(value);
}

/** A number in four significant digits. */
export function short(value) {
  if (typeof value === "string" && Number.isNaN(number(value)) && value !== "nan") return value;
  if (typeof value === "boolean") return String(value);
  const x = number(value);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "+Inf" : "−Inf";
  if (x === 0) return Object.is(x, -0) ? "−0" : "0";
  const size = Math.abs(x);
  const plain = size >= 1e-3 && size < 1e5;
  const text = Number.isInteger(x) && size < 1e5 ? String(x)
    : plain ? String(Number(x.toPrecision(4))) : x.toExponential(3).replace("e+", "e");
  return text.replace("-", "−").replace("e-", "e−");
}

/** A number in full, as Python writes it. */
export function exact(value) {
  const x = number(value);
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  return Object.is(x, -0) ? "-0.0" : String(x);
}

/** A count with thin spaces between thousands. @param {number} n */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** `1 site`, `3 sites`. @param {number} n @param {string} noun */
export function plural(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
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

/** What a person typed, as the kernel expects it; null is not given.
 * @param {string} type */
export function typed(type, text) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  if (type === "bool") return trimmed === "true";
  if (type === "str" || type === "choice") return /^-?\d+$/.test(trimmed) && type === "choice" ? Number(trimmed) : trimmed;
  try {
    return JSON.parse(trimmed.replace(/^\+/, ""));
  } catch {
    const x = Number(trimmed);
    return Number.isNaN(x) || !Number.isFinite(x) ? trimmed : x;
  }
}
