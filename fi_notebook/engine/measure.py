"""How far a faulty tensor is from the golden one: bits first, then size.

All measures are over elements that are finite in both, except the counts of changed
elements, sign flips, and new NaNs and infinities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch

from fi_notebook.core.run import Difference
from fi_notebook.engine.bits import changed_mask, equal_bits, position_hash
from fi_notebook.engine.store import Kept, sampled

__all__ = ["EQUAL", "Measure", "compare_kept", "difference", "differences", "measure"]


class Measure(NamedTuple):
    """The measures of one site, named as the columns of a comparison."""

    equal: bool
    exact: bool
    changed: int
    numel: int
    relative_l2: float
    max_abs: float
    max_rel: float
    max_ulp: float
    cosine: float
    sign_flips: int
    new_nan: int
    new_inf: int


EQUAL = Measure(True, True, 0, 0, 0.0, 0.0, 0.0, 0.0, 1.0, 0, 0, 0)


def compare_kept(kept: Kept, tensor: torch.Tensor) -> Measure:
    """Measure a tensor of the faulty run against what is kept of the golden one."""
    if kept.shape != tensor.shape or kept.dtype != tensor.dtype:
        return _incomparable(tensor)
    if kept.whole is not None:
        return measure(kept.whole, tensor)
    if kept.hash is not None and bool(torch.equal(kept.hash, position_hash(tensor))):
        return EQUAL._replace(numel=tensor.numel())
    assert kept.sample is not None  # kept without the whole: see ValueStore.add
    sample = sampled(tensor)
    part = measure(kept.sample, sample)
    scale = tensor.numel() / max(1, sample.numel())
    changed = max(1, round(part.changed * scale))
    return part._replace(equal=False, exact=False, changed=changed, numel=tensor.numel())


def _incomparable(tensor: torch.Tensor) -> Measure:
    nan = math.nan
    count = tensor.numel()
    return Measure(False, True, count, count, nan, nan, nan, nan, nan, 0, 0, 0)


def measure(golden: torch.Tensor, faulty: torch.Tensor) -> Measure:
    """Measure one tensor against another of the same shape and dtype."""
    if equal_bits(golden, faulty):
        return EQUAL._replace(numel=golden.numel())
    mask = changed_mask(golden, faulty)
    a, b = wide(golden), wide(faulty)
    finite = torch.isfinite(a) & torch.isfinite(b)
    delta = torch.where(finite, b - a, 0.0).abs()
    reference = torch.where(finite, a, 0.0)
    other = torch.where(finite, b, 0.0)
    norms = torch.linalg.vector_norm(reference) * torch.linalg.vector_norm(other)
    relative = torch.where(delta > 0, delta / reference.abs(), 0.0)
    return Measure(
        equal=False,
        exact=True,
        changed=int(mask.sum()),
        numel=golden.numel(),
        relative_l2=_ratio(torch.linalg.vector_norm(delta), torch.linalg.vector_norm(reference)),
        max_abs=float(delta.max()),
        max_rel=float(relative.max()),
        max_ulp=_ulps(golden, faulty, mask),
        cosine=_ratio((reference * other).sum(), norms),
        sign_flips=int((torch.signbit(a) != torch.signbit(b))[finite].sum()),
        new_nan=int((b.isnan() & ~a.isnan()).sum()),
        new_inf=int((b.isinf() & ~a.isinf()).sum()),
    )


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The values in float64, complex as pairs of parts."""
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.is_floating_point() and values.element_size() == 1:
        values = values.float()
    return values.double()


def _ratio(part: torch.Tensor, whole: torch.Tensor) -> float:
    value = float(part)
    return value if value == 0 else value / float(whole) if float(whole) else math.inf


def _ulps(golden: torch.Tensor, faulty: torch.Tensor, mask: torch.Tensor) -> float:
    """Largest distance in representable values; NaN for what is not floating point."""
    if not golden.is_floating_point():
        return math.nan
    a, b = golden.detach()[mask], faulty.detach()[mask]
    both = (
        ~(a.isnan() | b.isnan())
        if a.element_size() > 1
        else ~(a.float().isnan() | b.float().isnan())
    )
    if not bool(both.any()):
        return math.nan
    distance = _ordered(a)[both].double() - _ordered(b)[both].double()
    return float(distance.abs().max())


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Bits as integers in the order of the values, so that neighbours differ by one."""
    width = values.element_size()
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    bits = values.view(integers).to(torch.int64)
    lowest = torch.iinfo(integers).min
    return torch.where(bits < 0, lowest - bits, bits)


def difference(name: str, golden: torch.Tensor, faulty: torch.Tensor) -> Difference:
    """How far one named tensor is from the golden one."""
    golden, faulty = dense(golden), dense(faulty)
    if golden.shape != faulty.shape or golden.dtype != faulty.dtype:
        return Difference(name, equal=False, numel=faulty.numel(), note="other shape or dtype")
    found = measure(golden, faulty)
    scalar = golden.numel() == 1 and not golden.is_complex()
    return Difference(
        name,
        equal=found.equal,
        changed=found.changed,
        numel=found.numel,
        relative_l2=found.relative_l2,
        max_abs=found.max_abs,
        new_nan=found.new_nan,
        new_inf=found.new_inf,
        golden=float(golden) if scalar else math.nan,
        faulty=float(faulty) if scalar else math.nan,
    )


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with strides: a sparse gradient is written out."""
    return tensor if tensor.layout == torch.strided else tensor.detach().to_dense()


def differences(
    golden: Mapping[str, torch.Tensor], faulty: Mapping[str, torch.Tensor]
) -> tuple[Difference, ...]:
    """One difference per name that either side has, in the golden order."""
    names = dict.fromkeys((*golden, *faulty))
    return tuple(
        difference(name, golden[name], faulty[name])
        if name in golden and name in faulty
        else Difference(
            name, equal=False, note=f"only in the {'golden' if name in golden else 'faulty'} run"
        )
        for name in names
    )
