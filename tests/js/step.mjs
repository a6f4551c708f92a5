/** A small step: two modules, three phases, one call with two outputs, one folded call. */
export function trace() {
  const rows = [
    // call op number phase module stack output dtype shape flags nan posinf
    [0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    [1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    [2, 0, 2, 0, 2, 1, 0, 1, 1, 0, 0, 0],
    [3, 2, 1, 2, 2, 1, 0, 1, 1, 0, 2, 0],
    [3, 2, 1, 2, 2, 1, 1, 1, 1, 0, 0, 1],
    [4, 3, 1, 0, 0, 2, 0, 0, 0, 8, 0, 0],
  ];
  const names = ["call", "op", "number", "phase", "module", "stack", "output", "dtype", "shape",
    "flags", "nan", "posinf"];
  const columns = {};
  names.forEach((name, at) => { columns[name] = Int32Array.from(rows, (row) => row[at]); });
  const size = rows.length;
  Object.assign(columns, {
    own_stack: columns.stack, counted: new Uint8Array(size).fill(1),
    index: new Int32Array(size).fill(-1), parameter: new Int32Array(size).fill(-1),
    neginf: new Int32Array(size), std: Float32Array.from(rows, (_, at) => at),
  });
  const data = {
    sites: size, ops: ["mm", "relu", "mm_backward", "detach"],
    modules: [["", "Net", []], ["fc1", "Linear", ["tied"]], ["fc1.inner", "Linear", []]],
    phases: ["forward", "loss", "backward", "recompute", "optimizer", "other"],
    flags: ["in place", "view", "collective", "folded"],
    frames: [["/home/me/net.py", 3, "forward"], ["/home/me/net.py", 9, "forward"], ["In [5]", 3, ""]],
    stacks: [[0, 2], [1, 2], []], parameters: [], dtypes: ["float32", "bfloat16"],
    shapes: [[4, 8], [2]], sources: { "/home/me/net.py": "a\nb\n  x = mm(x)\n" },
  };
  return { data, columns, size };
}

export const NO_FACTS = { armed: new Map([[1, ["f1"]]]), effect: null, effects: [] };
