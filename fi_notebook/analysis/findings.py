"""What a person must not miss in a comparison, one plain sentence each.

    exp_avg_sq of conv1.weight holds 1 new Inf in 72 elements: gradients move these weights no more
    every gradient is zero: clipping divided by an infinite norm (linalg_vector_norm*9:0)
    escaped to weights: 6 of 8 parameters differ after the update, most fc.weight (…)

The first two, and NaN in buffers, leave none in loss or weights, and so are found by
nobody who looks only there.

Limits: state is known by its name (``exp_avg_sq`` of Adam and its like), gradients
count as zeroed where every one of them is a whole norm away from the golden one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fi_notebook.analysis.updates import has_optimizer
from fi_notebook.analysis.words import how_far, several, times
from fi_notebook.core.run import Comparison, Difference
from fi_notebook.core.words import agreed, among, counted

__all__ = ["findings", "hidden_damage"]

SECOND_MOMENTS = ("exp_avg_sq", "square_avg", "exp_inf")
"""Names of the optimizer state by which an update is divided."""

_GREW = 1e6
_NAMED = 2  # of many second moments, these are named
_NORMS = ("norm", "linalg_vector_norm", "_foreach_norm")


def findings(comparison: Comparison, *, grew: float = _GREW) -> tuple[str, ...]:
    """Everything in a comparison that a person must not miss.

    Args:
        comparison: The comparison of one step.
        grew: How many times its golden norm a second moment must be away to be named.

    Returns:
        One sentence each; the worst first.
    """
    return (*hidden_damage(comparison, grew=grew), *_all(comparison, _VISIBLE))


def hidden_damage(comparison: Comparison, *, grew: float = _GREW) -> tuple[str, ...]:
    """The damage that shows neither in the loss nor in the weights.

    Frozen weights, zeroed gradients, and buffers that evaluation alone reads.
    """
    moments = [
        state
        for state in comparison.optimizer_state
        if any(name in state.name for name in SECOND_MOMENTS)
    ]
    infinite = [state for state in moments if state.new_inf]
    finite = [state for state in moments if not state.new_inf]
    far = [state for state in finite if grew <= state.relative_l2 < np.inf]
    quiet = _all(comparison, (_zeroed_gradients, _bad_buffers))
    return tuple(text for text in (_infinite(infinite), _far(far), *quiet) if text)


def _all(comparison: Comparison, finders: Sequence[Callable[[Comparison], str]]) -> tuple[str, ...]:
    return tuple(text for finder in finders if (text := finder(comparison)))


def _infinite(states: Sequence[Difference]) -> str:
    """The second moments that hold a new Inf, the worst first."""
    clauses = [
        f"{state.name} holds {state.new_inf:,} new Inf in {counted(state.numel, 'element')}"
        for state in sorted(states, key=lambda state: -state.new_inf)
    ]
    divisor = "it" if len(clauses) == 1 else "them"
    return _moments(
        clauses, f"the update divides by {divisor}, so that gradients move these weights no more"
    )


def _far(states: Sequence[Difference]) -> str:
    """The second moments that are many golden norms away, the worst first.

    One that was zero or infinite is none of them: it need not be large now.
    """
    clauses = [
        f"{state.name} is {times(state.relative_l2)} its golden norm away{_changed(state)}"
        for state in sorted(states, key=lambda state: -state.relative_l2)
    ]
    root = "its root" if len(clauses) == 1 else "their roots"
    meaning = (
        f"the update divides by {root}, so where it is that large a weight hardly moves any more"
    )
    return _moments(clauses, meaning)


def _changed(state: Difference) -> str:
    """In how many elements, where that was counted."""
    if not state.changed:
        return ""
    return f" ({among(state.changed, state.numel, 'element')} {agreed(state.changed, 'differ')})"


def _moments(clauses: Sequence[str], meaning: str) -> str:
    return f"optimizer state {several(clauses, _NAMED)}: {meaning}" if clauses else ""


def _zeroed_gradients(comparison: Comparison) -> str:
    known = [g for g in comparison.gradients if not (g.new_nan or g.new_inf)]
    moved = [g for g in known if not g.equal]
    zeroed = [g for g in moved if abs(g.relative_l2 - 1) < 1e-6]
    source = _infinite_norm(comparison)
    if not source or not moved or len(zeroed) < len(moved):
        return ""
    which = (
        "every gradient"
        if len(moved) == len(comparison.gradients)
        else among(len(moved), len(comparison.gradients), "gradient")
    )
    return (
        f"{which} became zero: clipping divided by an infinite norm ({source}), "
        "so this step moves no weight by its gradient"
    )


def _infinite_norm(comparison: Comparison) -> str:
    """What shows an infinite norm: the call that took it, or the gradient norm."""
    for row in np.flatnonzero(comparison.columns["new_inf"] > 0):
        site = comparison.site(int(row))
        if site.op in _NORMS and comparison.columns["numel"][row] == 1:
            return str(site)
    return "the gradient norm" if np.isinf(comparison.gradient_norm.faulty) else ""


def _nonfinite(kind: str, differences: Sequence[Difference], meaning: str) -> str:
    bad = [d for d in differences if d.new_nan or d.new_inf]
    names = [f"{d.name} ({d.new_nan:,} NaN, {d.new_inf:,} Inf)" for d in bad]
    return f"new NaN or Inf in {kind} {several(names)}: {meaning}" if bad else ""


def _bad_parameters(comparison: Comparison) -> str:
    meaning = "every later step works with them"
    return _nonfinite("parameter", comparison.parameters, meaning)


def _bad_buffers(comparison: Comparison) -> str:
    meaning = "training may look fine, evaluation reads them"
    return _nonfinite("buffer", comparison.buffers, meaning)


def _skipped_update(comparison: Comparison) -> str:
    ended = comparison.parameters or comparison.optimizer_state  # known where the step did
    if not ended or has_optimizer(comparison.faulty) or not has_optimizer(comparison.golden):
        return ""
    return (
        "the update was skipped: the optimizer stepped in the golden run and not in this one, "
        "as where a GradScaler finds NaN or Inf in the gradients"
    )


def _escaped(comparison: Comparison) -> str:
    moved = [p for p in comparison.parameters if not p.equal]
    if not moved:
        return ""
    worst = max(moved, key=lambda p: (p.new_nan + p.new_inf, p.relative_l2))
    return (
        f"escaped to weights: {among(len(moved), len(comparison.parameters), 'parameter')} "
        f"{agreed(len(moved), 'differ')} after the update, most {worst.name} ({how_far(worst)})"
    )


def _structure(comparison: Comparison) -> str:
    return comparison.structural and f"the runs make different calls: {comparison.structural}"


_VISIBLE = (_skipped_update, _bad_parameters, _escaped, _structure)
