/** Texts of sites and source lines. */

/** @typedef {{ data: any, columns: Record<string, any>, size: number }} Trace */

/** `relu*2:0`, `other/mul*1:0`. @param {Trace} trace @param {number} row */
export function siteText(trace, row) {
  const c = trace.columns;
  const prefix = c.counted[row] ? "" : "other/";
  const index = c.index[row] < 0 ? "" : `[${c.index[row]}]`;
  return `${prefix}${trace.data.ops[c.op[row]]}*${c.number[row]}:${c.output[row]}${index}`;
}

/** Whether a site carries a mark such as `collective`. @param {Trace} trace @param {number} row */
export function isMarked(trace, row, flag) {
  return (trace.columns.flags[row] & (1 << trace.data.flags.indexOf(flag))) !== 0;
}

/** Short text of a source line. */
export function frameText(frame) {
  return `${String(frame[0]).replaceAll("\\", "/").split("/").pop()}:${frame[1]}`;
}

/** @param {number} stack */
export function lineLabel(data, stack) {
  const frames = data.stacks[stack];
  return frames?.length ? frameText(data.frames[frames[0]]) : "";
}

/** Text of a source line, if it was kept. */
export function sourceLine(data, frame) {
  const text = data.sources[frame[0]];
  return text === undefined ? "" : (text.split("\n")[frame[1] - 1] ?? "");
}
