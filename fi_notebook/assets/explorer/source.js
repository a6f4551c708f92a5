/** The source excerpt: the line that made the call, its callers, calls per line. */

import { button, h } from "./dom.js";
import { frameText } from "./names.js";
import { clip, count } from "./numbers.js";

/** @import { View } from "./dom.js" */

/** How many calls ran below each line of a file. @param {string} file */
function gutter(trace, file) {
  const { frames, stacks } = trace.data;
  const lines = stacks.map((stack) => new Set(stack.filter((f) => frames[f][0] === file).map((f) => frames[f][1])));
  const calls = new Map();
  const { stack, call } = trace.columns;
  for (let row = 0; row < trace.size; row += 1) {
    if (row && call[row] === call[row - 1]) continue;
    for (const line of lines[stack[row]]) calls.set(line, (calls.get(line) ?? 0) + 1);
  }
  return calls;
}

/** The line that made the call, marked, with its callers to choose from.
 * @param {View} view */
export function sourceExcerpt(view, row) {
  const { store } = view;
  const { data, columns } = store.trace;
  const both = [...data.stacks[columns.stack[row]], ...data.stacks[columns.own_stack[row]]];
  const frames = [...new Set(both)].map((each) => data.frames[each]);
  if (!frames.length) return h("div.empty", null, "no source line: the call was made outside your code");
  const frame = frames[Math.min(store.ui.frame, frames.length - 1)];
  const text = data.sources[frame[0]];
  const tabs = frames.map((each, i) => button(clip(frameText(each), 40), () => {
    store.ui.frame = i;
    store.changed("frame");
  }, { "aria-pressed": each === frame, title: `${each[0]}:${each[1]} in ${each[2]}` }, "tab"));
  const calls = gutter(store.trace, frame[0]);
  const lines = text === undefined ? [h("div.empty", null, "the source text was not kept")]
    : excerpt(text.split("\n"), frame[1], calls);
  return h("div.source", null, h("div.tabs", null, tabs, h("span.note.key", { title: "calls of this step that were made at the line, or below it" }, "n× calls")),
    h("div.code", { style: `--fi-gutter:${widest(calls)}ch`, role: "group", tabindex: 0, "aria-label": `source of ${clip(frameText(frame), 40)}` }, lines));
}

/** How many characters the longest number of calls has. @param {Map<number, number>} calls */
function widest(calls) {
  return Math.max(4, ...[...calls.values()].map((n) => count(n).length + 1));
}

/** @param {string[]} lines @param {number} marked @param {Map<number, number>} calls */
function excerpt(lines, marked, calls) {
  const first = Math.max(1, marked - 2);
  return lines.slice(first - 1, marked + 2).map((text, i) => {
    const line = first + i;
    return h("div.line", { "data-marked": line === marked },
      h("span.gutter", { title: "calls made at this line or below it" }, calls.has(line) ? `${count(calls.get(line))}×` : ""),
      h("span.lineno", null, String(line)), h("span.text", null, clip(text, 300)));
  });
}
