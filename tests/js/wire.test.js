import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { Wire, isGone } from "../../fi_notebook/assets/explorer/wire.js";

/** A block as the kernel packs it: head, then columns, each padded to eight bytes. */
function block(kind, data, columns) {
  const described = Object.entries(columns).map(([name, array]) => [name, array.constructor.name.replace("Array", "").toLowerCase(), array.length]);
  const head = Buffer.from(JSON.stringify({ kind, data, columns: described }));
  const padded = [head, ...Object.values(columns).map((a) => Buffer.from(a.buffer))].map((b) => Buffer.concat([b, Buffer.alloc((8 - (b.length % 8)) % 8)]));
  return { head: head.length, bytes: Buffer.concat(padded) };
}

/** Send a block in parts to a wire. */
function send(wire, seq, { head, bytes }, size, deflated = false) {
  const whole = deflated ? deflateSync(bytes) : bytes;
  const parts = Math.ceil(whole.length / size);
  for (let part = 0; part < parts; part += 1) {
    const piece = Uint8Array.from(whole.subarray(part * size, (part + 1) * size));
    wire.receive({ seq, part, parts, head, deflated }, [new DataView(piece.buffer)]);
  }
}

test("parts are put together, deflated ones too, in order", async () => {
  const heard = [];
  const wire = new Wire((message) => heard.push(message), () => assert.fail("nothing was lost"));
  const columns = { a: Int32Array.of(1, -2, 3), b: Float32Array.of(0.5), c: Uint8Array.of(9) };
  send(wire, 1, block("trace", { x: "ü" }, columns), 7, true);
  send(wire, 2, block("state", {}, {}), 1000);
  await wire.queue;
  assert.deepEqual(heard.map((message) => message.kind), ["trace", "state"]);
  assert.equal(heard[0].data.x, "ü");
  assert.deepEqual([...heard[0].columns.a], [1, -2, 3]);
  assert.deepEqual([...heard[0].columns.c], [9]);
});

test("a lost message, or a lost part, is asked for again", async () => {
  let asked = 0;
  const wire = new Wire(() => {}, () => { asked += 1; });
  send(wire, 4, block("state", {}, {}), 1000);
  assert.equal(asked, 0, "a page may open in the middle");
  send(wire, 6, block("state", {}, {}), 1000);
  assert.equal(asked, 1);
  wire.receive({ seq: 7, part: 1, parts: 2, head: 1, deflated: false }, [new DataView(new ArrayBuffer(8))]);
  assert.equal(asked, 2);
  await wire.queue;
});

test("a message that cannot be read is told, and the next one is heard", async () => {
  const failed = [];
  const heard = [];
  const wire = new Wire((message) => heard.push(message.kind), () => {}, (error) => failed.push(error));
  wire.receive({ seq: 1, part: 0, parts: 1, head: 4, deflated: false }, [new DataView(new ArrayBuffer(8))]);
  send(wire, 2, block("state", {}, {}), 1000);
  await wire.queue;
  assert.equal(failed.length, 1);
  assert.deepEqual(heard, ["state"]);
});

test("a kernel is gone where the model says so, or tells of a change and no more", () => {
  assert.deepEqual([true, false, undefined].map((live) => isGone({ comm_live: live }, true)), [false, true, true]);
  assert.deepEqual([true, false, undefined].map((live) => isGone({ comm_live: live }, false)), [false, true, false]);
});
