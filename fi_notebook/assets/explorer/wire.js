/** What the kernel sends: parts, put together into messages with columns. */

/** @typedef {{ kind: string, data: any, columns: Record<string, any> }} Message */

/** Why a view is read-only when nobody answers any more, and what to do. */
export const GONE = "the kernel is gone; run the cells again";

/** Whether nobody answers any more, as a model says that has been told of a change. Some host's
 * models do not say; they tell of a change where the kernel is gone, and of no other.
 * @param {{ comm_live?: boolean }} model @param {boolean} told whether a change was told */
export function isGone(model, told) {
  return model.comm_live === undefined ? told : !model.comm_live;
}

const ARRAYS = {
  uint8: Uint8Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
};

/** Read one block: a JSON head, then columns at multiples of eight bytes.
 * @param {number} head @param {Uint8Array} block @returns {Message} */
export function unpack(head, block) {
  const message = JSON.parse(new TextDecoder().decode(block.subarray(0, head)));
  const buffer = block.buffer;
  let at = block.byteOffset + Math.ceil(head / 8) * 8;
  const columns = {};
  for (const [name, type, length] of message.columns) {
    columns[name] = new ARRAYS[type](buffer, at, length);
    at += Math.ceil((length * ARRAYS[type].BYTES_PER_ELEMENT) / 8) * 8;
  }
  return { kind: message.kind, data: message.data, columns };
}

/** @param {Uint8Array} bytes */
export async function inflate(bytes) {
  const stream = new Blob([/** @type {any} */ (bytes)]).stream()
    .pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {Uint8Array[]} parts */
function joined(parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Puts the parts of messages together, in order, and notices a message that was lost. */
export class Wire {
  /** @param {(message: Message) => void} deliver @param {() => void} resync
   * @param {(error: unknown) => void} [fail] */
  constructor(deliver, resync, fail = console.error) {
    this.deliver = deliver;
    this.fail = fail;
    this.resync = resync;
    this.last = 0;
    /** @type {Uint8Array[]} */
    this.parts = [];
    this.queue = Promise.resolve();
  }

  /** @param {DataView[]} buffers */
  receive(content, buffers) {
    if (content.part === 0) this.parts = [];
    const view = buffers[0];
    this.parts.push(new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice());
    if (content.part < content.parts - 1) return;
    const whole = this.parts.length === content.parts ? joined(this.parts) : null;
    this.parts = [];
    const lost = !whole || (this.last && content.seq !== this.last + 1);
    this.last = content.seq;
    if (lost) this.resync();
    if (whole) this.queue = this.queue.then(() => this.open(content, whole)).catch(this.fail);
  }

  /** @param {Uint8Array} block */
  async open(content, block) {
    this.deliver(unpack(content.head, content.deflated ? await inflate(block) : block));
  }
}

/** The widget's comm of its own, heard while a cell runs; the widget itself where there is none.
 * @param {any} model @returns {Promise<any>} */
export function controlOf(model) {
  return Promise.resolve().then(() => model.widget_manager.get_model(model.get("_control"))).catch(() => model);
}

/** When the control comm is primed, in milliseconds after the view was made. */
export const PRIMED = [0, 300, 1000, 4000];
