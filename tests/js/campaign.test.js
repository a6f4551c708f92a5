import assert from "node:assert/strict";
import { test } from "node:test";
import { undrawn } from "../../fi_notebook/assets/explorer/campaign.js";

test("of pictures that could not be drawn the reason is said, of others nothing", () => {
  const texts = { outcomes: "as a table", harm: "the figure could not be drawn: no ink" };
  assert.deepEqual(undrawn({ figures: { outcomes: "{}" }, texts }), ["harm: the figure could not be drawn: no ink"]);
  assert.deepEqual(undrawn(), []);
});
