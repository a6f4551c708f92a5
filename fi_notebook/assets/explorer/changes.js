/** What changed in the plan, in words: for the log, and for who hears the page. */

/** @typedef {{ id: string, text: string, content: string, enabled: boolean }} Armed */

/** How many faults are named; of more there is only their number. */
const NAMED = 3;

/** What a change of the plan was: `armed f1`, `disarmed f1, f2`, `f2 switched off`; "" where the
 * faults are the same. @param {Armed[]} before @param {Armed[]} after */
export function planChange(before, after) {
  const was = new Map(before.map((fault) => [fault.id, fault]));
  const now = new Set(after.map(({ id }) => id));
  const stays = after.filter(({ id }) => was.has(id));
  const switched = (on) => stays.filter(({ id, enabled }) => enabled === on && was.get(id)?.enabled !== on);
  const other = ({ id, enabled, content }) => enabled === was.get(id)?.enabled && content !== was.get(id)?.content;
  return [["disarmed ", before.filter(({ id }) => !now.has(id)), ""], ["armed ", after.filter(({ id }) => !was.has(id)), ""],
    ["changed ", stays.filter(other), ""], ["", switched(true), " switched on"], ["", switched(false), " switched off"]]
    .filter(([, faults]) => faults.length)
    .map(([lead, faults, end]) => `${lead}${named(/** @type {Armed[]} */ (faults))}${end}`).join("; ");
}

/** The faults of a change in full, one a line; those that are gone as they were.
 * @param {Armed[]} before @param {Armed[]} after */
export function changedFaults(before, after) {
  const same = ({ id, content, enabled }, those) => those.some((each) => each.id === id && each.content === content && each.enabled === enabled);
  const gone = before.filter(({ id }) => after.every((each) => each.id !== id));
  return [...gone, ...after.filter((fault) => !same(fault, before))].map(({ text }) => text).join("\n");
}

/** @param {Armed[]} faults */
function named(faults) {
  return faults.length > NAMED ? `${faults.length} faults` : faults.map(({ id }) => id).join(", ");
}
