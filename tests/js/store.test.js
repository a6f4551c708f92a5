import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../../fi_notebook/assets/explorer/store.js";

/** A channel whose kernel is gone: it throws at once, or its promise fails. */
const DEAD = {
  "a channel that throws": () => { throw new Error("Cannot send"); },
  "a channel that fails later": () => Promise.reject(new Error("Cannot send")),
};

for (const [name, send] of Object.entries(DEAD)) {
  test(`${name} rejects the request with its reason and makes the view read-only`, async () => {
    const store = new Store(send);
    const topics = [];
    store.subscribe((changed) => topics.push(...changed));
    await assert.rejects(store.ask("ping"), /the kernel is gone/);
    assert.match(store.lost, /^the kernel is gone; run /);
    assert.equal(store.waiting.size, 0);
    assert.ok(topics.includes("state"));
    await assert.rejects(store.ask("arm"), /the kernel is gone/);
  });

  test(`${name} is told once in the log, and nothing is left unhandled`, async () => {
    const store = new Store(send);
    await Promise.all([store.tell("ping"), store.tell("replay")]);
    await store.tell("ping");
    assert.deepEqual(store.log.map(({ text, more }) => [text, more]), [[store.lost, "Error: Cannot send"]]);
  });
}

test("what waits for an answer is told when the kernel goes", async () => {
  const store = new Store(() => {});
  const asked = store.ask("replay");
  store.lose("superseded by a newer session of this model");
  store.lose("the kernel is gone");
  await assert.rejects(asked, /superseded/);
});
