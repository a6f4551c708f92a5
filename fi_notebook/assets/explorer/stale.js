/** Whether the cells that were traced are still as they were: read from the notebook around the view.
 *
 * The trace keeps the text of every cell that it names, `In [5]`; the page shows the same cell
 * with its number and its present text. Outside a notebook nothing is known, and nothing said.
 */

/** @import { View } from "./dom.js" */

const CELL = /^In \[(\d+)\]$/;

/** What has become of the traced cells, in one sentence; "" where all are as they were.
 * @param {Record<string, string>} sources texts by name, as the trace keeps them
 * @param {{ number: number, text: string, whole: boolean }[]} cells what the notebook shows */
export function changedCells(sources, cells) {
  const found = Object.entries(sources).map(([name, text]) => {
    const number = Number(CELL.exec(name)?.[1]);
    const cell = number ? cells.find((each) => each.number === number) : null;
    if (cell) return same(text, cell) ? "" : `${name} was edited`;
    const again = number ? cells.find((each) => each.number > number && each.whole && same(text, each)) : null;
    return again ? `${name} was run again as In [${again.number}]` : "";
  });
  return found.filter(Boolean).join(", ");
}

/** Whether a cell has this text; of a magic cell the first line was written anew for the trace.
 * Where the editor shows a part of a long cell, that part is looked for. */
function same(source, { text, whole }) {
  const [kept, shown] = text.startsWith("%%") ? [source, text].map(withoutFirst) : [source, text];
  return whole ? kept.trim() === shown.trim() : kept.includes(shown.trim());
}

/** @param {string} text */
function withoutFirst(text) {
  return text.slice(text.indexOf("\n") + 1);
}

/** The cells of a notebook that have a number. @param {Element} notebook */
function cellsOf(notebook) {
  return [...notebook.querySelectorAll(".jp-CodeCell")].map((cell) => {
    const number = Number(/\d+/.exec(cell.querySelector(".jp-InputPrompt")?.textContent ?? "")?.[0] ?? 0);
    return { number, ...textOf(cell.querySelector(".jp-InputArea-editor .cm-content")) };
  }).filter(({ number }) => number > 0);
}

/** Text of an editor: all of it where its own state can be asked, else the lines that are drawn. */
function textOf(content) {
  const state = (content?.cmTile ?? content?.cmView)?.view?.state;
  if (state) return { text: state.doc.toString(), whole: true };
  const lines = [...(content?.querySelectorAll(".cm-line") ?? [])].map((line) => line.textContent);
  return { text: lines.join("\n"), whole: false };
}

/** Look now, and whenever somebody types in the notebook or comes back to the view.
 * @param {View} view @returns {() => void} stops looking */
export function watchCells(view) {
  const { store, root } = view;
  let timer = 0;
  const look = () => {
    const notebook = root.closest(".jp-Notebook");
    const sources = store.trace?.data.sources;
    if (!notebook || !sources) return;
    const now = changedCells(sources, cellsOf(notebook));
    if (now === store.stale) return;
    store.stale = now;
    store.changed("state");
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(look, 300);
  };
  const unsubscribe = store.subscribe((topics) => { if (topics.includes("trace") || topics.includes("run")) soon(); });
  const events = ["input", "keyup", "focusin", "pointerenter"];
  let heard = null;
  const placed = setTimeout(() => { // the view is put into the notebook after it was made
    heard = root.closest(".jp-Notebook");
    for (const each of events) heard?.addEventListener(each, soon, { passive: true });
    look();
  }, 500);
  return () => {
    clearTimeout(placed);
    clearTimeout(timer);
    unsubscribe();
    for (const each of events) heard?.removeEventListener(each, soon);
  };
}
