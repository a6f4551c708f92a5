/** Whether the plan is still the one that the last replay ran. */

/** @import { Store } from "./store.js" */

/** @typedef {{ id: string, content: string, enabled: boolean }} Planned */

/** Whether the last replay ran this very fault: the same name and the same content.
 * @param {Store} store @param {Planned} fault */
export function hasRun({ run }, fault) {
  return run?.plan.some(({ id, content }) => id === fault.id && content === fault.content) ?? false;
}

/** What the last replay made of this very fault; undefined where it ran none such.
 * @param {Store} store @param {Planned} fault @returns {string | undefined} */
export function statusOf(store, fault) {
  return hasRun(store, fault) ? store.run.status[fault.id] : undefined;
}

/** That the result is of an earlier run or plan, and what to do; "" where it is of the present one.
 * @param {Store} store */
export function earlierText(store) {
  const { run, plan, readonly, lost, replaying } = store;
  if (run && replaying) return "This is the result of the run before.";
  if (!run || enabled(run.plan) === enabled(plan.faults)) return "";
  const todo = readonly || lost ? "" : enabled(plan.faults) ? ": press Replay to run the present one" : "; no fault is armed now";
  return `This is the result of an earlier plan${todo}.`;
}

/** The faults that a replay strikes, as one text. @param {Planned[]} faults */
function enabled(faults) {
  return faults.filter((fault) => fault.enabled).map(({ id, content }) => `${id} ${content}`).join("\n");
}
