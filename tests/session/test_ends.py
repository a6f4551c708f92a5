from __future__ import annotations

from math import inf, nan

import torch

from fi_notebook.engine.measure import difference
from fi_notebook.session.ends import EndTensors


def test_ends_are_as_far_as_each_tensor_by_itself() -> None:
    """Lost infinities, squares of 0 and infinite ones, zeros, new NaN, and what is plain.

    By hand: 2/1, 1/1, no number, 0/√5, 0/0, 3/0 and 2/5.
    """
    pairs = {
        "huge": ([1e200, 1.0], [3e200, 2.0]),
        "tiny": ([1e-170, 0.0], [2e-170, 0.0]),
        "mask": ([0.0, -inf], [0.0, 5.0]),
        "bad": ([1.0, 2.0], [inf, nan]),
        "sign": ([0.0, 0.0], [-0.0, 0.0]),
        "zero": ([0.0, 0.0], [3.0, 0.0]),
        "plain": ([3.0, 4.0], [3.0, 2.0]),
    }
    golden, faulty = (
        {name: torch.tensor(pair[side], dtype=torch.float64) for name, pair in pairs.items()}
        for side in (0, 1)
    )
    found = EndTensors(golden).against(faulty).differences
    assert [d.relative_l2 for d in found] == [2.0, 1.0, inf, 0.0, 0.0, inf, 0.4]
    for ends in found:
        alone = difference(ends.name, golden[ends.name], faulty[ends.name])
        measures = ("equal", "numel", "relative_l2", "max_abs", "new_nan", "new_inf")
        assert [getattr(ends, m) for m in measures] == [getattr(alone, m) for m in measures]
