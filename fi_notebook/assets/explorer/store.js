/** What the page knows, and what the person looks at. */

import { inPlace } from "./editing.js";
import { requestOf } from "./fault.js";
import { openTo } from "./layout.js";
import { RECEIVERS } from "./receive.js";
import { openAtFirst, shownOf } from "./shown.js";
import { buildTree } from "./views.js";
import { GONE } from "./wire.js";

/** @import { Tree } from "./layout.js" */
/** @import { Facts } from "./search.js" */
/** @import { Message } from "./wire.js" */

/** What the page knows, and what the person looks at. Views draw it; nothing lives in the DOM. */
export class Store {
  /** @param {(content: Record<string, any>) => any} send @param {boolean} readonly */
  constructor(send, readonly = false) {
    this.send = send;
    this.readonly = readonly;
    this.lost = "";
    this.trace = null;
    /** @type {any} */ this.hello = { models: [] };
    /** @type {any} */ this.plan = { faults: [] };
    this.run = null;
    this.runs = 0; // how many were told
    this.stale = ""; // what has become of the traced cells since
    this.failed = ""; // why the last request came to nothing
    this.errors = null;
    /** @type {any} */ this.figures = { figures: {}, texts: {} };
    /** @type {any} */ this.state = { state: "idle" };
    this.steps = null;
    this.sweep = null;
    /** @type {any} */ this.sweepPictures = { figures: {}, texts: {} };
    /** @type {any[]} */ this.log = [];
    this.site = null;
    /** @type {Map<number, string[]>} */ this.armed = new Map();
    /** @type {Set<number>} */ this.pending = new Set();
    /** @type {Record<string, Tree>} */ this.trees = {};
    /** @type {Record<string, Uint8Array>} */ this.open = {};
    /** @type {any} */ this.ui = {
      view: "modules", query: "", hidden: new Set(), folded: false, node: -1, row: -1,
      heat: "std", tab: "diff", pane: "tree", path: "injector.json", editing: null, element: null, anchor: null, cursor: null, corner: null, injection: 0, frame: 0,
      form: { model: "bitflip", parameters: {}, extent: "count", extentText: "1", steps: "0", seed: "0" },
    };
    /** @type {Set<(topics: string[]) => void>} */ this.listeners = new Set();
    /** @type {Map<number, any>} */
    this.waiting = new Map();
    this.lastId = 0;
    /** What the form's fault would change, or why it cannot. @type {any} */
    this.preview = null;
    this.previewTimer = 0;
    this.timer = 0;
    this.asked = 0; // inspections; the last one counts
    this.shown = null;
    this.onPlotly = null;
  }

  /** @param {(topics: string[]) => void} listener @returns {() => void} */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** @param {...string} topics */
  changed(...topics) {
    if (topics.some((topic) => ["trace", "tree", "plan", "run"].includes(topic))) this.shown = null;
    for (const listener of this.listeners) listener(topics);
  }

  /** Make a request; the promise ends with the kernel's reply.
   * @param {string} kind @param {Record<string, any>} [fields] @returns {Promise<any>} */
  ask(kind, fields = {}) {
    if (this.readonly || this.lost) return Promise.reject(new Error(this.lost || "read-only"));
    this.lastId += 1;
    const id = this.lastId;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, quiet: kind === "preview" }); // asked at every key
      this.post({ kind, id, ...fields });
    });
  }

  /** Send a request; a channel that is closed means that the kernel is gone.
   * @param {Record<string, any>} content */
  async post(content) {
    try {
      await this.send(content);
    } catch (error) {
      this.lose(GONE, String(error));
    }
  }

  /** Make a request whose failure goes to the log. @param {string} kind */
  tell(kind, fields = {}) {
    return this.ask(kind, fields).catch((error) => { if (!this.lost) this.fail(error.message); });
  }

  /** Say in the footer and in the log what went wrong. @param {string} [more] */
  fail(text, more = "") {
    this.failed = text;
    this.note("error", text, more);
    this.changed("state");
  }

  /** Put a line into the log; what was just said is not said again.
   * @param {string} level @param {string} [more] */
  note(level, text, more = "") {
    const last = this.log[0];
    if (last?.level === level && last.text === text && Date.now() - last.time < 2000) {
      last.more ||= more;
      return;
    }
    this.log.unshift({ level, text, more, time: new Date() });
    this.log.length = Math.min(this.log.length, 200);
    this.changed("log");
  }

  /** From now on read-only: whatever waits for an answer is told why.
   * @param {string} reason @param {string} [more] */
  lose(reason, more = "") {
    if (this.lost) return;
    this.lost = reason;
    this.note("warning", reason, more);
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
    this.changed("state", "plan", "site");
  }

  /** @param {Message} message */
  receive(message) {
    const handler = RECEIVERS[message.kind];
    if (handler) handler(this, message.data, message.columns);
  }

  /** @returns {Facts} */
  facts() {
    return { armed: this.armed, effect: this.errors?.effect ?? null, effects: this.run?.effects ?? [] };
  }

  /** The tree of the present view. @returns {Tree} */
  tree() {
    const { view } = this.ui;
    this.trees[view] ??= buildTree(this.trace, view);
    return this.trees[view];
  }

  /** Which nodes are open; a search has its own, all open at first. */
  opened() {
    const searched = this.ui.query.trim();
    const key = searched ? `${this.ui.view} found` : this.ui.view;
    this.open[key] ??= searched ? new Uint8Array(this.tree().size).fill(1) : openAtFirst(this.tree());
    return this.open[key];
  }

  /** Open the tree down to a depth, and fold what is below. @param {number} depth */
  openTo(depth) {
    this.opened().set(openTo(this.tree(), depth));
    this.changed("tree");
  }

  /** What the tree pane shows now; worked out once per change. */
  visible() {
    if (this.trace) this.shown ??= shownOf(this);
    return this.shown;
  }

  /** Choose a site. Nothing runs. */
  select(row) {
    if (row < 0 || row === this.ui.row) return;
    const alike = this.ui.row >= 0 && String(this.shapeOf(row)) === String(this.shapeOf(this.ui.row));
    if (!alike) this.ui.element = this.ui.anchor = this.ui.corner = null; // else it stays chosen
    this.ui.cursor = null;
    this.ui.turned = false;
    this.ui.row = row;
    this.ui.frame = 0;
    this.site = this.preview = null;
    this.changed("site");
    this.inspect();
  }

  /** Show a site in the tree too. */
  reveal(row) {
    if (!(row >= 0) || !this.trace) return;
    let node = this.tree().nodeOfRow[row];
    if (!this.visible()?.mask[row]) {
      this.ui.query = "";
      this.ui.hidden.clear();
      this.ui.folded = true;
    }
    const open = this.opened();
    this.ui.node = node;
    while ((node = this.tree().parent[node]) >= 0) open[node] = 1;
    this.select(row);
    this.changed("tree", "reveal");
  }

  /** Ask for exact figures and for the values, where they are kept. */
  inspect() {
    const { row, element, corner } = this.ui;
    const asked = this.asked += 1;
    clearTimeout(this.timer);
    if (this.readonly || this.lost) return;
    this.timer = setTimeout(async () => {
      const site = await this.ask("inspect", { row, view: { element, corner } }).catch(() => null);
      if (!site || this.asked !== asked) return;
      this.site = site;
      this.ui.corner = site.values?.corner ?? null;
      this.changed("values");
    }, 60);
  }

  /** @returns {number[]} */
  shapeOf(row) {
    return this.trace.data.shapes[this.trace.columns.shape[row]];
  }

  /** @returns {string} */
  dtypeOf(row) {
    return this.trace.data.dtypes[this.trace.columns.dtype[row]];
  }

  /** Arm the form's fault at a site, or disarm what is armed there. */
  async toggleArmed(row) {
    const faults = this.armed.get(row);
    if (faults) return this.tell("disarm", { fault: faults[faults.length - 1] });
    this.select(row);
    return this.arm(row);
  }

  async arm(row) {
    this.pending.add(row);
    this.changed("tree");
    try {
      const armed = await this.ask("arm", { ...requestOf(this, row), ...inPlace(this) });
      this.ui.editing = null;
      return armed;
    } finally {
      this.pending.delete(row);
      this.changed("tree");
    }
  }
}
