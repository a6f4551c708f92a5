/** A tree as columns: nodes laid out parents first, counted and flattened. */

/** @typedef {{
 *   size: number, kind: Uint8Array, ref: Int32Array, parent: Int32Array, end: Int32Array,
 *   depth: Uint8Array, leaves: Int32Array, children: Int32Array, nodeOfRow: Int32Array
 * }} Tree */

/** What a node stands for; `ref` points into the table of that kind. */
export const KIND = { module: 0, file: 1, line: 2, op: 3, phase: 4, call: 5, site: 6, fold: 7 };

/** Collects nodes in any order, then lays them out parents first. */
export class TreeBuilder {
  constructor() {
    /** @type {number[]} */ this.kind = [];
    /** @type {number[]} */ this.ref = [];
    /** @type {number[]} */ this.parent = [];
    /** @type {Map<string, number>} */ this.known = new Map();
  }

  /** @param {number} parent @param {number} kind @param {number} ref */
  add(parent, kind, ref) {
    this.kind.push(kind);
    this.ref.push(ref);
    this.parent.push(parent);
    return this.kind.length - 1;
  }

  /** The node of this key, made at the first call.
   * @param {string} key @param {number} parent @param {number} kind @param {number} ref */
  get(key, parent, kind, ref) {
    let node = this.known.get(key);
    if (node === undefined) {
      node = this.add(parent, kind, ref);
      this.known.set(key, node);
    }
    return node;
  }

  /** @param {number} rows @returns {Tree} */
  finish(rows) {
    const size = this.kind.length;
    const { first, next } = siblings(this.parent);
    const tree = emptyTree(size, rows);
    const place = new Int32Array(size);
    let at = 0;
    const open = [];
    for (let node = first[size]; node >= 0 || open.length;) {
      if (node < 0) {
        const done = open.pop();
        tree.end[place[done]] = at;
        node = next[done];
        continue;
      }
      place[node] = at;
      this.put(tree, node, at, this.parent[node] < 0 ? -1 : place[this.parent[node]]);
      at += 1;
      open.push(node);
      node = first[node];
    }
    for (let n = size - 1; n >= 0; n -= 1) if (tree.parent[n] >= 0) tree.leaves[tree.parent[n]] += tree.leaves[n];
    return tree;
  }

  /** @param {Tree} tree @param {number} node @param {number} at @param {number} parent */
  put(tree, node, at, parent) {
    tree.kind[at] = this.kind[node];
    tree.ref[at] = this.ref[node];
    tree.parent[at] = parent;
    tree.depth[at] = parent < 0 ? 0 : tree.depth[parent] + 1;
    if (parent >= 0) tree.children[parent] += 1;
    if (this.kind[node] !== KIND.site) return;
    tree.leaves[at] = 1;
    tree.nodeOfRow[this.ref[node]] = at;
  }
}

/** First child and next sibling of every node; entry `size` holds the roots.
 * @param {number[]} parent */
function siblings(parent) {
  const size = parent.length;
  const first = new Int32Array(size + 1).fill(-1);
  const next = new Int32Array(size + 1).fill(-1);
  for (let node = size - 1; node >= 0; node -= 1) {
    const above = parent[node] < 0 ? size : parent[node];
    next[node] = first[above];
    first[above] = node;
  }
  return { first, next };
}

/** @param {number} size @param {number} rows @returns {Tree} */
function emptyTree(size, rows) {
  return {
    size,
    kind: new Uint8Array(size), ref: new Int32Array(size), parent: new Int32Array(size),
    end: new Int32Array(size), depth: new Uint8Array(size), leaves: new Int32Array(size), children: new Int32Array(size),
    nodeOfRow: new Int32Array(rows).fill(-1),
  };
}

/** How many chosen sites stand at or below each node. @param {Tree} tree @param {Uint8Array} mask */
export function tally(tree, mask) {
  const found = new Int32Array(tree.size);
  for (let node = tree.size - 1; node >= 0; node -= 1) {
    if (tree.kind[node] === KIND.site) found[node] = mask[tree.ref[node]];
    if (tree.parent[node] >= 0) found[tree.parent[node]] += found[node];
  }
  return found;
}

/** The largest value of the chosen sites at or below each node; −1 where none has one.
 * @param {Tree} tree @param {ArrayLike<number>} values @param {ArrayLike<number>} mask */
export function highest(tree, values, mask) {
  const most = new Float64Array(tree.size).fill(-1);
  for (let node = tree.size - 1; node >= 0; node -= 1) {
    if (tree.kind[node] === KIND.site && mask[tree.ref[node]]) most[node] = values[tree.ref[node]];
    const above = tree.parent[node];
    if (above >= 0 && !(most[node] <= most[above])) most[above] = most[node];
  }
  return most;
}

/** The nodes that are shown, in order: found ones whose ancestors are all open.
 * @param {Tree} tree @param {Uint8Array} open @param {Int32Array} found */
export function flatten(tree, open, found) {
  const shown = new Int32Array(tree.size);
  let size = 0;
  for (let node = 0; node < tree.size;) {
    if (!found[node]) {
      node = tree.end[node];
      continue;
    }
    shown[size] = node;
    size += 1;
    node = open[node] ? node + 1 : tree.end[node];
  }
  return shown.subarray(0, size);
}

/** Which nodes are open where everything is, down to a depth: 0 leaves the roots alone.
 * @param {Tree} tree @param {number} depth */
export function openTo(tree, depth) {
  return Uint8Array.from(tree.depth, (each) => (each < depth ? 1 : 0));
}

/** Whether a node has children. @param {Tree} tree @param {number} node */
export function isBranch(tree, node) {
  return tree.end[node] > node + 1;
}

/** The first site at or below a node. @param {Tree} tree */
export function firstRow(tree, node) {
  let at = node;
  while (tree.kind[at] !== KIND.site) at += 1;
  return tree.ref[at];
}
