"""Why an error vanished in a call, and how much it grew in the call where it grew most.

    >>> deaths(comparison)
    [Death(row=12, mechanism='pooling')]          the calls in which all of it ended
    >>> growth_words(comparison)
    'the error grew most in log*1:0 (35 times, from 0.011 to 0.4)'

The mechanism is decided from the operator, and from what the engine saw of the values
(`core.masking.Evidence`). Where the two allow several mechanisms it is *unknown*.

Limits: traces from files carry no evidence, and there only operators that have one
mechanism (ReLU, pooling, a mask, a cast to fewer bits) are explained. That something was
rounded away is said of calls of up to a million elements, not of those in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fi_notebook.analysis.residue import cancelled
from fi_notebook.analysis.unread import last_followed
from fi_notebook.analysis.words import four_digits, several, times
from fi_notebook.core.masking import DIED_OF, MECHANISMS, Evidence
from fi_notebook.core.run import EFFECTS, Comparison
from fi_notebook.core.trace import FLAGS, Trace

__all__ = ["Death", "assign_mechanisms", "deaths", "deaths_words", "growth_words"]

_MASKED = EFFECTS.index("masked")
_VIEW = 1 << FLAGS.index("view")
_SEEN, _FIRST, _OTHERS = Evidence.SEEN, Evidence.FIRST, Evidence.OTHERS


@dataclass(frozen=True, slots=True)
class _Case:
    """What is known of a call that masks.

    Attributes:
        evidence: What was seen of its values.
        narrowed: Whether an input that differs has another dtype than the output.
        widespread: Whether every element of an input that differs changed.
        makers: Operators that made the inputs that do not differ, and what made those.
    """

    evidence: Evidence
    narrowed: bool
    widespread: bool
    makers: frozenset[str]

    @property
    def first_alone(self) -> bool:
        """Whether the first tensor among the arguments, and no other, is known to differ."""
        return self.evidence & (_FIRST | _OTHERS) == _FIRST


_Rule = Callable[[_Case], str]


def _always(mechanism: str) -> _Rule:
    return lambda _case: mechanism


def _of_first(mechanism: str) -> _Rule:
    """A mechanism that holds where it was the first tensor that differed, not a mask or index."""
    return lambda case: "unknown" if case.evidence & _OTHERS else mechanism


def _of_others(mechanism: str) -> _Rule:
    """A mechanism that holds where the first tensor, a condition, did not differ."""
    return lambda case: "unknown" if case.evidence & _FIRST else mechanism


def _hidden(case: _Case) -> str:
    """What hides an error in any function that is not a sum, or unknown."""
    seen = case.evidence
    if seen & Evidence.FACTOR:
        return "multiplication by zero"
    if seen & Evidence.SIGN:
        return "sign dropped"
    if seen & Evidence.OUTSIDE:
        return "selection"
    return "rounding" if seen & Evidence.ROUNDED else "unknown"


def _product(case: _Case) -> str:
    """A zero that it meets may be that of a dropout."""
    dropped = case.evidence & Evidence.FACTOR and case.makers & _DROPOUT
    return "dropout mask" if dropped else _hidden(case)


def _summed(case: _Case) -> str:
    """What hides an error in a sum: else its parts cancel or are rounded away."""
    found = _hidden(case)
    return "cancelling or rounding" if found == "unknown" and case.evidence & _SEEN else found


def _straight_backward(case: _Case) -> str:
    """Of a function that is straight between a few points: the side comes out the same."""
    return "comparison" if case.evidence & Evidence.SLOPE else _hidden(case)


def _blocking_backward(mechanism: str) -> _Rule:
    """The same of one that is flat on a side, where a gradient that differs is blocked."""
    return lambda case: mechanism if case.first_alone else _straight_backward(case)


def _cast(case: _Case) -> str:
    return "rounding in a cast" if case.narrowed else "unknown"


def _copy(case: _Case) -> str:
    return "overwritten" if case.first_alone else _cast(case)


def _pooling(case: _Case) -> str:
    return "selection" if case.evidence & Evidence.OUTSIDE else _of_first("pooling")(case)


def _saturating(case: _Case) -> str:
    return "saturation" if case.evidence & Evidence.LIMIT else _hidden(case)


def _exponential(case: _Case) -> str:
    """It has one bound: an output of 1 is the rounded one of nearly 0."""
    return "saturation" if case.evidence & Evidence.ZERO else _hidden(case)


def _saturating_backward(case: _Case) -> str:
    """Where the gradient that comes in is 0, what it is multiplied with does not matter."""
    if case.evidence & Evidence.FACTOR or not case.evidence & Evidence.ZERO:
        return _hidden(case)
    return "saturation"


def _normalising(case: _Case) -> str:
    if not case.evidence & _SEEN:
        return "unknown"
    if case.evidence & Evidence.LIMIT:
        return "saturation"
    return "normalisation" if case.widespread else _hidden(case)


_DROPOUT = frozenset({"bernoulli_", "bernoulli", "native_dropout"})

_GROUPS: tuple[tuple[_Rule, str], ...] = (
    (_always("ReLU at zero"), "relu threshold"),
    (_blocking_backward("ReLU at zero"), "threshold_backward"),
    (_blocking_backward("saturation"), "hardtanh_backward"),
    (_straight_backward, "leaky_relu_backward hardsigmoid_backward"),
    (_of_first("clipping"), "clamp clamp_min clamp_max clip hardtanh"),
    (
        _always("clipping"),
        "_foreach_clamp_min _foreach_clamp_max _foreach_minimum _foreach_maximum",
    ),
    (
        _pooling,
        (
            "max_pool1d max_pool2d max_pool2d_with_indices max_pool3d_with_indices "
            "adaptive_max_pool2d mkldnn_max_pool2d"
        ),
    ),
    (_cast, "_to_copy to type_as"),
    (_copy, "copy _foreach_copy"),
    (
        _saturating,
        (
            "sigmoid tanh gelu silu elu selu celu softplus erf mish hardsigmoid hardswish "
            "log_sigmoid_forward"
        ),
    ),
    (_exponential, "exp"),
    (
        _saturating_backward,
        (
            "sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward "
            "softplus_backward hardswish_backward log_sigmoid_backward"
        ),
    ),
    (_normalising, "_softmax _log_softmax native_layer_norm native_batch_norm native_group_norm"),
    (_normalising, "cudnn_batch_norm _batch_norm_with_update _fused_rms_norm"),
    (_of_first("dropout mask"), "native_dropout native_dropout_backward"),
    (_of_first("mask"), "masked_fill masked_scatter"),
    (_of_others("mask"), "where"),
    (_product, "mul"),
    (_hidden, "convolution avg_pool2d avg_pool3d"),
    (_hidden, "div sqrt rsqrt reciprocal log log1p pow sin cos cosh abs square"),
    (_summed, "mm bmm addmm baddbmm norm linalg_vector_norm _foreach_norm"),
    (_summed, "add sub sum mean var std cumsum logsumexp addcmul addcdiv"),
    (_summed, "lerp _adaptive_avg_pool2d mse_loss"),
    (_always("rounding"), "floor ceil round trunc"),
    (_always("comparison"), "argmax argmin max min amax amin topk sort eq ne lt le gt ge sign sgn"),
    (_always("comparison"), "isfinite isnan isinf any all logical_and logical_or logical_not"),
    (_always("comparison"), "maximum minimum median mode kthvalue searchsorted bucketize"),
    (
        _of_first("selection"),
        (
            "slice select index gather embedding index_select split split_with_sizes unbind chunk "
            "narrow masked_select nll_loss_forward nll_loss2d_forward take as_strided"
        ),
    ),
    (
        _always("overwritten"),
        (
            "fill zero bernoulli normal uniform random exponential geometric log_normal cauchy "
            "_foreach_zero"
        ),
    ),
)

_RULES: dict[str, _Rule] = {name: rule for rule, names in _GROUPS for name in names.split()}


def assign_mechanisms(
    faulty: Trace, columns: dict[str, np.ndarray], evidence: np.ndarray | None = None
) -> np.ndarray:
    """Why the error vanished in each call that masked it.

    Args:
        faulty: Trace of the faulty run, which knows what led to what.
        columns: The columns of a comparison, effects included.
        evidence: `Evidence` of each site row of the faulty trace, or None.

    Returns:
        One index into `MECHANISMS` per row; 0 where nothing was masked.
    """
    codes = np.zeros(len(columns["effect"]), dtype=np.uint8)
    position = np.full(len(faulty), -1)
    made = columns["faulty"] >= 0
    position[columns["faulty"][made]] = np.flatnonzero(made)
    for row in np.flatnonzero(columns["effect"] == _MASKED).tolist():
        site = int(columns["faulty"][row])
        seen = Evidence(int(evidence[site])) if evidence is not None else Evidence(0)
        codes[row] = MECHANISMS.index(_mechanism(faulty, columns, position, site, seen))
    return codes


def _mechanism(
    faulty: Trace, columns: dict[str, np.ndarray], position: np.ndarray, site: int, seen: Evidence
) -> str:
    call = int(faulty.site_columns["call"][site])
    if faulty.calls["flags"][call] & _VIEW:
        return "selection"
    if seen & Evidence.NONFINITE:
        return "already NaN or Inf"
    op = faulty.tables.ops[faulty.calls["op"][call]]
    rule = _RULES.get(op) or _RULES.get(op.removesuffix("_"))
    return rule(_case(faulty, columns, position, site, seen)) if rule else "unknown"


def _case(
    faulty: Trace, columns: dict[str, np.ndarray], position: np.ndarray, site: int, seen: Evidence
) -> _Case:
    inputs = _inputs(faulty, int(faulty.site_columns["call"][site]))
    rows = [int(position[i]) for i in inputs]
    differing = [(i, r) for i, r in zip(inputs, rows, strict=True) if not columns["equal"][r]]
    same = {i for i, r in zip(inputs, rows, strict=True) if columns["equal"][r]}
    dtypes = faulty.site_columns["dtype"]
    before = {row for i in same for row in _inputs(faulty, _call_of(faulty, i))}
    return _Case(
        evidence=seen,
        narrowed=any(dtypes[i] != dtypes[site] for i, _ in differing),
        widespread=any(columns["changed"][r] == columns["numel"][r] for _, r in differing),
        makers=frozenset(_op(faulty, i) for i in same | before),
    )


def _inputs(trace: Trace, call: int) -> list[int]:
    return trace.input_sites[slice(*trace.input_offsets[call : call + 2])].tolist()


def _call_of(trace: Trace, site: int) -> int:
    return int(trace.site_columns["call"][site])


def _op(trace: Trace, site: int) -> str:
    return trace.tables.ops[trace.calls["op"][_call_of(trace, site)]]


@dataclass(frozen=True, slots=True)
class Death:
    """A call in which an error vanished.

    Attributes:
        row: Its first masked row in the comparison.
        mechanism: One of `MECHANISMS`.
    """

    row: int
    mechanism: str


def deaths(comparison: Comparison) -> list[Death]:
    """The calls in which an error vanished, in execution order; one for each call.

    A call that passes the error on in another of its outputs is none of them.
    """
    columns = comparison.columns
    found: dict[int, Death] = {}
    alive = {
        _call_of(comparison.faulty, int(columns["faulty"][row]))
        for row in comparison.diverged.tolist()
        if columns["faulty"][row] >= 0
    }
    for row in np.flatnonzero(columns["effect"] == _MASKED).tolist():
        call = _call_of(comparison.faulty, int(columns["faulty"][row]))
        if call not in alive:
            found.setdefault(call, Death(row, MECHANISMS[int(columns["mechanism"][row])]))
    return list(found.values())


def _call_text(comparison: Comparison, row: int) -> str:
    return str(comparison.site(row)).rsplit(":", 1)[0]


def deaths_words(comparison: Comparison, limit: int = 2) -> str:
    """Where the error died and of what, as a clause; ``""`` where no call masked it.

    Where it lived on elsewhere, into the loss, the update or what is not read, it is *part of*
    the error.
    """
    found = deaths(comparison)
    if not found:
        return ""
    died = "part of the error died" if _lived_on(comparison) else "the error died"
    named = found if len(found) <= limit else [found[0], found[-1]]
    told = [f"{_call_text(comparison, d.row)} ({DIED_OF[d.mechanism]})" for d in named]
    if named is found:
        return f"{died} in {several(told, limit)}"
    return f"{died} in {len(found)} calls, first in {told[0]}, last in {told[1]}"


def _lived_on(comparison: Comparison) -> bool:
    """Whether anything that the step gives or leaves behind differs, or may."""
    c = comparison
    left = (c.loss, *c.gradients, *c.parameters, *c.buffers, *c.optimizer_state)
    return last_followed(c) is not None or not all(difference.equal for difference in left)


def growth_words(comparison: Comparison) -> str:
    """Where the error grew most and by how much, as a clause; ``""`` where it never did."""
    columns = comparison.columns
    amplified = columns["effect"] == EFFECTS.index("amplified")
    if not amplified.any():
        return ""
    amplified &= ~cancelled(comparison)
    growth = np.where(amplified, np.nan_to_num(columns["growth"], posinf=np.inf), 0.0)
    if not growth.max() > 1:
        return ""
    row = int(growth.argmax())
    after, factor = float(columns["relative_l2"][row]), float(growth[row])
    if not np.isfinite(factor):
        return f"the error grew most in {comparison.site(row)} (without bound)"
    return (
        f"the error grew most in {comparison.site(row)} ({times(factor)}, "
        f"from {four_digits(after / factor)} to {four_digits(after)})"
    )
