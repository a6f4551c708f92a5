"""What the values say of a call that an error entered and did not leave.

    masking.unequal[row] = kept                 an output that differs, as it was golden
    masking.before(reads); masking.after(call, outputs, rows)
    masking.column(sites)                       Evidence.SEEN | FIRST | ZERO, …

Asked only where an input differs from the golden run and no output does. Each input that
differs is held against what the golden run kept of it; where one was not kept whole, or
the call wrote over it, or it is a distributed tensor, its values are not at hand and nothing is
said of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fi_notebook.core.masking import Evidence
from fi_notebook.engine.again import POOLS, SLOPES, passes_over, rounds, same_slope
from fi_notebook.engine.bits import changed_mask
from fi_notebook.engine.intercept import Call
from fi_notebook.engine.measure import wide
from fi_notebook.engine.outputs import IN_PLACE, Output
from fi_notebook.engine.storages import is_readable, local_part
from fi_notebook.engine.store import Kept

__all__ = ["Masking", "Read", "evidence"]

_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
"""Positions of the two factors of a matrix product among the tensors of its arguments."""

_ELEMENTWISE_BACKWARD = """
threshold_backward hardtanh_backward leaky_relu_backward sigmoid_backward tanh_backward
gelu_backward silu_backward elu_backward softplus_backward hardsigmoid_backward
hardswish_backward
"""
_FACTORS: dict[str, dict[int, int]] = {
    "mul": {0: 1, 1: 0},
    "div": {1: 0},
    "addcmul": {1: 2, 2: 1},
    "addcdiv": {2: 1},
    **{name: {1: 0} for name in _ELEMENTWISE_BACKWARD.split()},
}
"""For a tensor that changed, by position, the one whose zeros hide it, element by element."""

_MIXING = """
mv addmv dot convolution convolution_backward avg_pool2d avg_pool3d _adaptive_avg_pool2d sum
mean var std norm linalg_vector_norm _foreach_norm logsumexp cumsum mse_loss
"""
_MIXES = frozenset(_MIXING.split())
"""Operators of whose output any element may depend on any element of an input."""

_NORMALISING = """
_log_softmax native_layer_norm native_batch_norm native_group_norm cudnn_batch_norm
_batch_norm_with_update _fused_rms_norm
"""
_NORMALISES = frozenset(_NORMALISING.split())
"""Operators that mix as well, but are at a limit by the element of the same index."""

_BY_INDEX = f"""
add sub rsub mul div neg abs square sqrt rsqrt reciprocal pow exp exp2 expm1 log log2 log10 log1p
sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh atan2 erf erfc fmod remainder
floor ceil round trunc sigmoid gelu silu elu selu celu softplus mish hardsigmoid hardswish hardtanh
relu leaky_relu _prelu_kernel threshold clamp clamp_min clamp_max clip maximum minimum
addcmul addcdiv lerp log_sigmoid_forward log_sigmoid_backward {_ELEMENTWISE_BACKWARD}
_to_copy to type_as copy clone native_dropout native_dropout_backward _softmax
"""
_ELEMENTWISE = frozenset(_BY_INDEX.split())
"""Operators whose output at an index tells of a change there; a softmax is NaN in all or none
of what it normalises together.

None that selects (``where``, ``gather``, a pool) is among them: what it gives at an index may
come from elsewhere, or be the value that it fills in.
"""

_TOLD = _ELEMENTWISE | _MIXES | _NORMALISES | _PRODUCTS.keys()
"""Operators of which is known what a change could reach."""

_EVEN = "abs square pow cos cosh mul addcmul mse_loss norm linalg_vector_norm _foreach_norm"
_DROPS_SIGNS = frozenset(_EVEN.split())


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """One tensor among the arguments of a call, as it was read.

    Attributes:
        tensor: The tensor of the faulty run.
        differs: Whether a site that made it differs from the golden run.
        golden: What the golden run kept of it, or None.
    """

    tensor: torch.Tensor
    differs: bool
    golden: Kept | None = None


class Masking:
    """Watches for calls that an error enters and does not leave.

    Args:
        unequal: For each site row that differs, what the golden run kept of it.
    """

    def __init__(self, unequal: dict[int, Kept] | None = None) -> None:
        """Start with no error seen."""
        self.unequal: dict[int, Kept] = {} if unequal is None else unequal
        self._reads: list[Read] = []
        self._found: dict[int, int] = {}

    def before(self, arguments: Sequence[tuple[torch.Tensor, tuple[int, ...]]]) -> None:
        """A call is about to be made.

        Args:
            arguments: Each tensor that it reads, with the site rows that made it.
        """
        self._reads = []
        if any(row in self.unequal for _, rows in arguments for row in rows):
            self._reads = [self._read(tensor, rows) for tensor, rows in arguments]

    def _read(self, tensor: torch.Tensor, rows: tuple[int, ...]) -> Read:
        differs = any(row in self.unequal for row in rows)
        return Read(tensor, differs, self.unequal.get(rows[0]) if len(rows) == 1 else None)

    def after(self, call: Call, made: Sequence[Output], rows: range) -> None:
        """The call was made; look at its values where an input differs and no output does.

        Args:
            call: The call.
            made: Its outputs, each of them measured.
            rows: Their site rows.
        """
        if self._reads and not any(row in self.unequal for row in rows):
            self._found.update(dict.fromkeys(rows, int(evidence(call, made, self._reads))))

    def column(self, sites: int) -> np.ndarray:
        """What was seen (`core.masking.Evidence`), one entry per site."""
        seen = np.zeros(sites, dtype=np.uint16)
        seen[list(self._found)] = list(self._found.values())
        return seen


def evidence(call: Call, made: Sequence[Output], reads: Sequence[Read]) -> Evidence:
    """What the values of a masking call say.

    Args:
        call: The call.
        made: Its outputs.
        reads: The tensors among its arguments, in order.
    """
    found = Evidence(0)
    for position, read in enumerate(reads):
        if read.differs:
            found |= Evidence.OTHERS if position else Evidence.FIRST
    written = {output.tensor.data_ptr() for output in made if output.kind == IN_PLACE}
    masks = [_mask(read, written) if read.differs else None for read in reads]
    if any(mask is None and read.differs for mask, read in zip(masks, reads, strict=True)):
        return found
    op = call.op.removesuffix("_")
    found |= _outputs_there(op, masks, made)
    faulty = [read.tensor for read in reads]
    golden = [_whole(read) for read in reads]
    if op in _DROPS_SIGNS and _only_signs(op, golden, faulty):
        found |= Evidence.SIGN
    if _met_zeros(op, masks, faulty):
        found |= Evidence.FACTOR
    return found if written else found | _made_again(call, found, masks, golden, faulty)


def _made_again(
    call: Call,
    found: Evidence,
    masks: Sequence[torch.Tensor | None],
    golden: Sequence[torch.Tensor],
    faulty: Sequence[torch.Tensor],
) -> Evidence:
    """What is told by making the call once more, where nothing else tells."""
    if found & (Evidence.FACTOR | Evidence.SIGN | Evidence.NONFINITE) or not found & Evidence.SEEN:
        return Evidence(0)
    first = None if found & Evidence.OTHERS else masks[0]
    if call.op in POOLS and first is not None and passes_over(call, faulty, first):
        return Evidence.OUTSIDE
    if call.op in SLOPES and not found & Evidence.FIRST:
        return Evidence.SLOPE if same_slope(call, golden, faulty) else Evidence(0)
    return Evidence.ROUNDED if rounds(call, golden, faulty) else Evidence(0)


def _whole(read: Read) -> torch.Tensor:
    """A tensor as it was read in the golden run."""
    kept = read.golden if read.differs else None
    return read.tensor if kept is None or kept.whole is None else kept.whole


def _mask(read: Read, written: set[int]) -> torch.Tensor | None:
    """Which elements of an input changed, where its values are at hand."""
    kept, tensor = read.golden, read.tensor
    if kept is None or tensor.data_ptr() in written or not is_readable(tensor):
        return None
    if local_part(tensor) is not tensor:  # to look at a call of these is to speak to other ranks
        return None
    if kept.shape != tensor.shape or kept.dtype != tensor.dtype or kept.whole is None:
        return None
    return changed_mask(kept.whole, tensor)


def _only_signs(op: str, golden: Sequence[torch.Tensor], faulty: Sequence[torch.Tensor]) -> bool:
    """Whether what the call squares, or takes the size of, changed its signs alone."""
    if op == "mse_loss":
        golden, faulty = ([wide(one) - wide(other)] for one, other in (golden[:2], faulty[:2]))
    return all(
        torch.equal(wide(before).abs(), wide(after).abs())
        for before, after in zip(golden, faulty, strict=True)
    )


def _met_zeros(
    op: str, masks: Sequence[torch.Tensor | None], tensors: Sequence[torch.Tensor]
) -> bool:
    """Whether each change met zeros only, which hide it."""
    changed = [n for n, mask in enumerate(masks) if mask is not None]
    if len(changed) != 1:
        return False
    (position,) = changed
    mask = masks[position]
    assert mask is not None  # it is the changed one
    if op in _PRODUCTS and position in _PRODUCTS[op]:
        left, right = _PRODUCTS[op]
        if position == left:  # column k of the left meets row k of the right
            return not tensors[right].detach()[mask.any(-2), :].any()
        return not tensors[left].detach().transpose(-1, -2)[mask.any(-1), :].any()
    other = _FACTORS.get(op, {}).get(position)
    if other is None or other >= len(tensors):  # the other may be a number
        return False
    return not _at(mask, tensors[other]).any()


def _at(mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values at the places of a mask; the two are broadcast to one shape."""
    mask, values = torch.broadcast_tensors(mask, values.detach())
    return values[mask]


def _outputs_there(
    op: str, masks: Sequence[torch.Tensor | None], made: Sequence[Output]
) -> Evidence:
    """What the output is where a change could show; nothing where that is not known.

    Beside others that are finite, one that is NaN or infinite does not say why they are as they
    were: then the values do not count as seen.
    """
    mixes = op in _MIXES
    outputs = [each.tensor for each in (made if mixes else made[:1])]
    real = all(not each.is_complex() and each.layout == torch.strided for each in outputs)
    if op not in _TOLD or not outputs or not real:
        return Evidence.SEEN
    there = outputs if mixes else [outputs[0].detach()[_reached(op, masks, outputs[0])]]
    finite = [torch.isfinite(wide(each)) for each in there]
    if all(bool(each.all()) for each in finite):
        return Evidence.SEEN if mixes else Evidence.SEEN | _limits(wide(there[0]))
    if op in _NORMALISES:
        finite = [torch.isfinite(wide(outputs[0]))]
    known = not any(bool(each.any()) for each in finite)
    return Evidence.SEEN | Evidence.NONFINITE if known else Evidence(0)


def _limits(values: torch.Tensor) -> Evidence:
    """Whether outputs, if there are any, are at a bound of a function."""
    found = Evidence(0)
    if len(values) and bool((values == 0).all()):
        found |= Evidence.ZERO
    if len(values) and bool(((values == 0) | (values.abs() == 1)).all()):
        found |= Evidence.LIMIT
    return found


def _reached(op: str, masks: Sequence[torch.Tensor | None], output: torch.Tensor) -> torch.Tensor:
    """Which elements of the output a change could reach; none where shapes do not fit."""
    reached = torch.zeros_like(output, dtype=torch.bool)
    left, right = _PRODUCTS.get(op, (-1, -1))
    for position, mask in enumerate(masks):
        if mask is None:
            continue
        if position == left:  # a row of the left makes a row of the output
            mask = mask.any(-1, keepdim=True)
        elif position == right:
            mask = mask.any(-2, keepdim=True)
        try:
            reached |= mask
        except RuntimeError:
            return torch.zeros_like(reached)
    return reached
