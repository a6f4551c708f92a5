/** What the page knows, and what the person looks at. */

import { backToEdited, inPlace, keepEdited } from "./editing.js";
import { requestOf } from "./fault.js";
import { openTo } from "./layout.js";
import { RECEIVERS } from "./receive.js";
import { openAtFirst, shownOf } from "./shown.js";
import { buildTree } from "./views.js";
import { GONE } from "./wire.js";

/** @import { Tree } from "./layout.js" */
/** @import { Facts } from "./search.js" */
/** @import { Message } from "./wire.js" */

/** Requests that nobody made: their success says nothing of what a person did. */
const UNASKED = ["ready", "resync", "ping"];

/** What is said of a request whose answer was lost. */
const UNHEARD = "the answer of the kernel was lost; see what is shown before you ask again";

/** How long the footer says what was done; the log keeps it. */
const TOLD_MS = 10_000;

/** What the page knows, and what the person looks at. Views draw it; nothing lives in the DOM. */
export class Store {
  /** @param {(content: Record<string, any>) => any} send @param {boolean} readonly */
  constructor(send, readonly = false) {
    this.send = send;
    this.readonly = readonly;
    this.lost = "";
    this.trace = null;
    /** @type {any} */ this.hello = { models: [] };
    /** @type {any} */ this.plan = { faults: [], session: "session" };
    this.planned = false; // a plan was told
    this.change = ""; // what the last one was to the plan before it, in words
    this.run = null;
    this.runs = 0; // how many were told
    this.stale = ""; // what has become of the traced cells since
    this.failed = ""; // why the last request came to nothing
    this.failures = 0; // how many were told
    this.told = ""; // what the last request did, where that is not seen elsewhere
    this.errors = null;
    /** @type {any} */ this.figures = { figures: {}, texts: {} };
    /** @type {any} */ this.state = { state: "idle" };
    this.replaying = false; // a replay runs whose result has not come
    this.steps = null; // of the replay that runs
    this.sweep = null;
    /** @type {any} */ this.sweepPictures = { figures: {}, texts: {} };
    /** @type {any[]} */ this.log = [];
    this.site = null;
    /** @type {Map<number, string[]>} */ this.armed = new Map();
    /** @type {Set<string>} */ this.off = new Set(); // faults that are switched off
    /** @type {Set<number>} */ this.pending = new Set();
    /** @type {Record<string, Tree>} */ this.trees = {};
    /** @type {Record<string, Uint8Array>} */ this.open = {};
    /** @type {any} */ this.ui = {
      view: "modules", query: "", hidden: new Set(), folded: false, node: -1, row: -1,
      heat: "std", tab: "diff", pane: "tree", path: "injector.json", editing: null, justArmed: null, element: null, elementText: null, anchor: null, cursor: null, corner: null, injection: 0, frame: 0,
      form: { model: "bitflip", parameters: {}, extent: "count", extentText: "1", steps: "0", seed: "0" },
    };
    /** @type {Set<(topics: string[]) => void>} */ this.listeners = new Set();
    /** @type {Map<number, any>} */
    this.waiting = new Map();
    this.lastId = 0;
    /** What the form's fault would change, or why it cannot. @type {any} */
    this.preview = null;
    this.previewTimer = 0;
    this.toldTimer = 0;
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

  /** Make a request whose failure goes to the footer and to the log. @param {string} kind */
  tell(kind, fields = {}) {
    const { failures } = this;
    return this.ask(kind, fields).then((answer) => {
      if (!UNASKED.includes(kind) && failures === this.failures) this.done();
      return answer;
    }, (error) => { if (!this.lost) this.fail(error.message); });
  }

  /** Ask for everything again, since a message was lost. It may have been an answer: a request
   * that the kernel no longer works on is given up. */
  async resync() {
    const older = [...this.waiting.keys()];
    const awaited = await this.tell("resync");
    if (!awaited) return;
    for (const id of older.filter((each) => !awaited.includes(each))) {
      this.waiting.get(id)?.reject(new Error(UNHEARD));
      this.waiting.delete(id);
    }
  }

  /** Change the plan, and tell how that went. @param {string} kind @param {Record<string, any>} [fields]
   * @returns {Promise<string>} what changed, in words; "" where nothing did */
  async changePlan(kind, fields = {}) {
    this.change = "";
    await this.tell(kind, fields);
    return this.change;
  }

  /** Say in the footer and in the log what went wrong. @param {string} [more] */
  fail(text, more = "") {
    this.failures += 1;
    this.failed = text;
    this.note("error", text, more);
    this.changed("state");
  }

  /** A request was done: what went wrong before is over. Say what was done, in the footer and in
   * the log, where nothing else shows it. @param {string} [text] @param {string} [more] */
  done(text = "", more = "") {
    this.failed = "";
    this.told = text;
    clearTimeout(this.toldTimer);
    if (text) this.toldTimer = setTimeout(() => this.forget(text), TOLD_MS);
    if (text) this.note("info", text, more);
    this.changed("state");
  }

  /** What was done is old news: the footer says how things stand again. @param {string} text */
  forget(text) {
    if (this.told !== text) return;
    this.told = "";
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
    keepEdited(this);
    const shape = this.shapeOf(row);
    const alike = this.ui.row >= 0 && String(shape) === String(this.shapeOf(this.ui.row));
    if (!alike) { // else it stays chosen
      this.ui.element = this.elementIn(shape);
      this.ui.elementText = this.ui.anchor = this.ui.corner = null;
    }
    this.ui.cursor = null;
    this.ui.turned = false;
    this.ui.row = row;
    this.ui.frame = 0;
    this.site = this.preview = null;
    backToEdited(this);
    this.changed("site");
    this.inspect();
  }

  /** What of the chosen element is left in a tensor of another shape: the one of a scalar, the
   * same index where it is aimed at and is one, else none: then the form aims at a drawn one.
   * @param {number[]} shape */
  elementIn(shape) {
    const { element, form } = this.ui;
    if (!shape.length) return [];
    if (form.extent !== "index") return null;
    if (element?.length === shape.length && element.every((at, axis) => at < shape[axis])) return element;
    this.ui.form = { ...form, extent: "count", extentText: "1" };
    return null;
  }

  /** Show a site in the tree too. */
  reveal(row) {
    if (!(row >= 0) || !this.trace) return;
    if (!this.visible()?.mask[row]) {
      this.ui.query = "";
      this.ui.hidden.clear();
      this.ui.folded = true;
    }
    this.ui.node = this.tree().nodeOfRow[row];
    this.openAbove(row);
    this.select(row);
    this.changed("tree", "reveal");
  }

  /** Open every node above a site. @param {number} row */
  openAbove(row) {
    const { nodeOfRow, parent } = this.tree();
    const open = this.opened();
    for (let node = parent[nodeOfRow[row]]; node >= 0; node = parent[node]) open[node] = 1;
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

  /** Arm the form's fault at a site, switch on what is off there, or disarm what is armed.
   * @returns {Promise<string>} what changed, in words */
  async toggleArmed(row) {
    const last = this.armed.get(row)?.at(-1);
    if (!last) {
      this.select(row);
      return `armed ${await this.arm(row)}`;
    }
    return this.boxOf(row) === "off" ? this.changePlan("enable", { fault: last, on: true })
      : this.changePlan("disarm", { fault: last });
  }

  /** What a site's box shows: pending, free, armed, or off where all its faults are.
   * @param {number} row */
  boxOf(row) {
    const faults = this.armed.get(row) ?? [];
    if (this.pending.has(row)) return "pending";
    return !faults.length ? "free" : faults.every((fault) => this.off.has(fault)) ? "off" : "armed";
  }

  /** Arm what the form says at a site, or put it in the place of a fault: of the one that is
   * edited, unless another is named. @param {number} row @param {Record<string, any>} [place] */
  async arm(row, place = inPlace(this)) {
    this.pending.add(row);
    this.changed("tree");
    try {
      const request = requestOf(this, row);
      const asked = { ...request, ...place };
      const fault = await this.ask("arm", asked);
      this.ui.editing = null;
      const code = this.plan.faults.find((each) => each.id === fault)?.code;
      this.ui.justArmed = { row, fault, code, site: asked.site, request: JSON.stringify(request) };
      this.done();
      this.changed("fault");
      return fault;
    } finally {
      this.pending.delete(row);
      this.changed("tree");
    }
  }
}
