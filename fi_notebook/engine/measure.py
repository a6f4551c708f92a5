"""How far a faulty tensor is from the golden one: bits first, then size.

All measures are over elements that are finite in both, except the counts of changed
elements, sign flips, and new NaNs and infinities. Where golden is NaN or infinite and the other
has a number, or the other infinity, relative L2 and largest difference are infinite. Of a
distributed tensor what this rank keeps is measured: no rank waits for another to be told how
far it is.

Limits: in a replay, of tensors over 8,192 elements in float32 or narrower, the relative L2,
the largest relative error and the cosine have 4 digits or more, the largest difference 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from fi_notebook.core.run import Difference
from fi_notebook.engine.bits import changed_mask, equal_bits, position_hash
from fi_notebook.engine.ruler import QUICK, QUICK_BLOCK, Ruler, pairs
from fi_notebook.engine.storages import is_dense, is_plain, local_part
from fi_notebook.engine.store import Kept, sampled
from fi_notebook.faults import has_memory
from fi_notebook.faults.bits import format_of
from fi_notebook.faults.numbers import whole_numbers

__all__ = [
    "EQUAL",
    "Measure",
    "compare_kept",
    "difference",
    "differences",
    "measure",
    "squared_distance",
]


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

_COUNTS = ("changed", "sign_flips", "new_nan", "new_inf")
"""Measures that grow with the number of elements."""

_BLOCK = 1 << 18
_LARGE_BLOCK = 1 << 24

SAFE_SQUARES = 1e-280
"""Sum of squares from which on those that float64 cannot hold do not matter to it."""


def compare_kept(kept: Kept, tensor: torch.Tensor, ruler: Ruler | None = None) -> Measure:
    """Measure a tensor of the faulty run against what is kept of the golden one."""
    tensor = local_part(tensor)
    if kept.shape != tensor.shape or kept.dtype != tensor.dtype:
        return _incomparable(tensor)
    if kept.held is None and _same_hash(kept, tensor):
        return EQUAL._replace(numel=tensor.numel())
    if (whole := kept.whole) is not None:
        return measure(whole.to(tensor.device), tensor, ruler)
    if kept.sample is None:
        return _unmeasured(tensor)
    return _of_whole(measure(kept.sample, sampled(tensor), ruler), tensor.numel())


def _of_whole(part: Measure, numel: int) -> Measure:
    """What a sample tells of the whole tensor, of which the hash says that it differs."""
    scale = numel / max(1, part.numel)
    counts = {name: round(getattr(part, name) * scale) for name in _COUNTS}
    counts["changed"] = max(1, counts["changed"])
    return part._replace(equal=False, exact=False, numel=numel, **counts)


def _same_hash(kept: Kept, tensor: torch.Tensor) -> bool:
    hashed = position_hash(tensor)
    return kept.hash is not None and bool(torch.equal(kept.hash.to(hashed.device), hashed))


def _incomparable(tensor: torch.Tensor) -> Measure:
    nan = math.nan
    count = tensor.numel()
    return Measure(False, True, count, count, nan, nan, nan, nan, nan, 0, 0, 0)


def _unmeasured(tensor: torch.Tensor) -> Measure:
    """Other bits, says the hash; how far is left to the statistics of the traces."""
    unknown = dict.fromkeys(Measure._fields, math.nan)
    known = {"equal": False, "exact": False, "numel": tensor.numel()}
    return Measure(**(unknown | known))  # type: ignore[arg-type]  # NaN stands for unknown


def measure(golden: torch.Tensor, faulty: torch.Tensor, ruler: Ruler | None = None) -> Measure:
    """Measure one tensor against another of the same shape and dtype, block by block.

    Args:
        golden: The golden tensor.
        faulty: The other one.
        ruler: What has room for the largest block; None takes some. From one that is brief,
            ``max_rel``, ``max_ulp``, ``cosine`` and ``sign_flips`` are NaN or 0.
    """
    golden, faulty = local_part(golden), local_part(faulty)
    if equal_bits(golden, faulty):
        return EQUAL._replace(numel=golden.numel())
    parts = list(_parts(golden.detach(), faulty.detach(), ruler))
    relative_l2, cosine = _relative(golden, faulty, parts)
    lost = any(part.lost for part in parts)
    ulps = [part.ulps for part in parts if not math.isnan(part.ulps)]
    return Measure(
        equal=False,
        exact=True,
        changed=sum(part.changed for part in parts),
        numel=golden.numel(),
        relative_l2=math.inf if lost else relative_l2,
        max_abs=math.inf if lost else max(part.max_abs for part in parts),
        max_rel=max(part.max_rel for part in parts),
        max_ulp=max(ulps, default=math.nan),
        cosine=cosine,
        sign_flips=sum(part.sign_flips for part in parts),
        new_nan=sum(part.new_nan for part in parts),
        new_inf=sum(part.new_inf for part in parts),
    )


def _parts(golden: torch.Tensor, faulty: torch.Tensor, ruler: Ruler | None) -> Iterator[_Part]:
    """The measures block by block; on the host in blocks that stay in the cache."""
    here = golden.device.type == faulty.device.type == "cpu"
    quick = here and golden.dtype in QUICK and is_plain(golden) and is_plain(faulty)
    golden, faulty = _flat(golden, faulty)
    if quick:
        ruler = ruler or Ruler(golden.numel())
        yield from map(_Part._make, ruler.measure(golden, faulty))
    else:
        size = _BLOCK if golden.device.type == "cpu" else _LARGE_BLOCK
        yield from (_Part.of(a, b) for a, b in pairs(golden, faulty, size))


def _flat(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors as vectors without gaps, without a copy where they lie alike."""
    if a.stride() == b.stride() and is_dense(a) and is_plain(a) and is_plain(b):
        return a.as_strided((a.numel(),), (1,)), b.as_strided((b.numel(),), (1,))
    return a.reshape(-1).contiguous(), b.reshape(-1).contiguous()


class _Part(NamedTuple):
    """The measures of one block: sums of squares, maxima and counts."""

    difference: float
    golden: float
    faulty: float
    product: float
    max_abs: float
    max_rel: float
    ulps: float
    changed: int
    sign_flips: int
    new_nan: int
    new_inf: int
    lost: int  # NaNs and infinities in place of which there is a number, or the other infinity

    @classmethod
    def of(cls, golden: torch.Tensor, faulty: torch.Tensor) -> _Part:
        """Measure a block."""
        mask = changed_mask(golden, faulty)
        a, b = _elements(golden), _elements(faulty)
        finite = torch.isfinite(a) & torch.isfinite(b)
        reference, other = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
        whole = golden.dtype in (torch.int64, torch.uint64)
        delta = _apart(golden, faulty) if whole else (other - reference).abs()
        relative = torch.where(delta > 0, delta / reference.abs(), 0.0)
        reference, other = _parts_of(reference), _parts_of(other)
        return cls(
            difference=float(delta.square().sum()),
            golden=float(reference.square().sum()),
            faulty=float(other.square().sum()),
            product=float((reference * other).sum()),
            max_abs=float(delta.max()),
            max_rel=float(relative.max()),
            ulps=_ulps(golden, faulty, mask),
            changed=int(mask.sum()),
            sign_flips=int(_other_signs(a, b)[finite].sum()),
            new_nan=int((b.isnan() & ~a.isnan()).sum()),
            new_inf=int((_infinite(b) & ~_infinite(a)).sum()),
            lost=int(((~a.isfinite() & b.isfinite()) | (a.isinf() & (a == -b))).sum()),
        )


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """The values in float64, complex as complex128."""
    values = wide(tensor)
    return torch.view_as_complex(values) if tensor.is_complex() else values


def _parts_of(values: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(values) if values.is_complex() else values


def _apart(golden: torch.Tensor, faulty: torch.Tensor) -> torch.Tensor:
    """How far 64-bit integers are apart, taken before float64 rounds them."""
    a, b = (whole_numbers(side.detach())[0] for side in (golden, faulty))
    steps = torch.maximum(a, b) - torch.minimum(a, b)  # below zero where 2**63 and more
    return torch.where(steps < 0, steps.double() + 2.0**64, steps.double())


def _other_signs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Which elements have another sign bit; of complex ones in either part."""
    differs = torch.signbit(_parts_of(a)) != torch.signbit(_parts_of(b))
    return differs.any(-1) if a.is_complex() else differs


def _infinite(values: torch.Tensor) -> torch.Tensor:
    """Which elements are infinite; a complex one of which a part is NaN counts as NaN alone."""
    return values.isinf() & ~values.isnan() if values.is_complex() else values.isinf()


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The values in float64, complex as pairs of parts."""
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.is_floating_point() and values.element_size() == 1:
        values = values.float()
    return values.double()


def _relative(
    golden: torch.Tensor, faulty: torch.Tensor, parts: list[_Part]
) -> tuple[float, float]:
    """Relative L2 and cosine."""
    difference, before, after, product = (sum(part[n] for part in parts) for n in range(4))
    held = all(SAFE_SQUARES < squares < math.inf for squares in (difference, before, after))
    if held or golden.dtype not in (torch.float64, torch.complex128):
        found = _ratio(math.sqrt(difference), math.sqrt(before))
        return found, _cosine(before, after, product)
    return _relative_of_units(golden, faulty)


def _relative_of_units(golden: torch.Tensor, faulty: torch.Tensor) -> tuple[float, float]:
    """The same of numbers whose squares float64 cannot hold: each side in a unit of its own."""
    a, b = wide(golden), wide(faulty)
    finite = torch.isfinite(a) & torch.isfinite(b)
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    units = [_unit(a), _unit(b)]
    most = max(units)
    apart = b / most - a / most
    unit = _unit(apart)
    a, b, apart = a / units[0], b / units[1], apart / unit
    difference, before, after = (float(side.square().sum()) for side in (apart, a, b))
    found = _ratio(math.sqrt(difference) * (most / units[0] * unit), math.sqrt(before))
    return found, _cosine(before, after, float((a * b).sum()))


def _unit(values: torch.Tensor) -> float:
    """The power of 2 up to the largest magnitude; of zeros the smallest number there is."""
    largest = float(values.abs().max())
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else math.ulp(0.0)


def _cosine(golden: float, faulty: float, product: float) -> float:
    """Of the angle, from squares and product; rounding does not carry it beyond 1."""
    found = _ratio(product, math.sqrt(golden) * math.sqrt(faulty))
    return math.copysign(1.0, found) if 1 < abs(found) < math.inf else found


def _ratio(part: float, whole: float) -> float:
    return part if part == 0 else part / whole if whole else math.inf


def _ulps(golden: torch.Tensor, faulty: torch.Tensor, mask: torch.Tensor) -> float:
    """Largest distance in representable values; NaN for what is no real floating point."""
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
    first, second = _ordered(a)[both], _ordered(b)[both]
    alike = (first < 0) == (second < 0)  # then their distance is whole, in float64 it is not
    near = torch.where(alike, first - second, 0).abs().max()
    far = torch.where(alike, 0.0, first.double() - second.double()).abs().max()
    return max(float(near), float(far))


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Bits as integers in the order of the values, so that neighbours differ by one."""
    if "sign" not in format_of(values.dtype).fields:
        return values.view(torch.uint8).to(torch.int64)
    width = values.element_size()
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    bits = values.view(integers).to(torch.int64)
    lowest = torch.iinfo(integers).min
    return torch.where(bits < 0, lowest - bits, bits)


def difference(
    name: str, golden: torch.Tensor, faulty: torch.Tensor, ruler: Ruler | None = None
) -> Difference:
    """How far one named tensor is from the golden one."""
    golden, faulty = dense(golden), dense(faulty)
    if golden.shape != faulty.shape or golden.dtype != faulty.dtype:
        return Difference(name, equal=False, numel=faulty.numel(), note="other shape or dtype")
    found = measure(golden, faulty, ruler or Ruler(golden.numel(), brief=True))
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


def squared_distance(golden: torch.Tensor, faulty: torch.Tensor) -> float:
    """Sum of squares of all differences, in float64; NaN and Inf come through."""
    golden, faulty = dense(golden).detach(), dense(faulty).detach()
    if equal_bits(golden, faulty):
        return 0.0
    size = QUICK_BLOCK if golden.device.type == "cpu" else _LARGE_BLOCK
    blocks = pairs(*_flat(golden, faulty), size)
    return sum(float((wide(b) - wide(a)).square().sum()) for a, b in blocks)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with strides: a sparse gradient is written out, of a distributed one this part."""
    tensor = local_part(tensor)
    return tensor if tensor.layout == torch.strided else tensor.detach().to_dense()


def _with_values(named: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those that have values at hand; a meta tensor, a wrapper and a nested one have none."""
    parts = {name: local_part(tensor) for name, tensor in named.items()}
    return {
        name: tensor
        for name, tensor in parts.items()
        if not tensor.is_nested and (tensor.layout != torch.strided or has_memory(tensor))
    }


def differences(
    golden: Mapping[str, torch.Tensor], faulty: Mapping[str, torch.Tensor]
) -> tuple[Difference, ...]:
    """One difference per name with values that either side has, in the golden order."""
    golden, faulty = _with_values(golden), _with_values(faulty)
    names, ruler = dict.fromkeys((*golden, *faulty)), Ruler(brief=True, single=True)
    return tuple(
        difference(name, golden[name], faulty[name], ruler)
        if name in golden and name in faulty
        else Difference(
            name, equal=False, note=f"only in the {'golden' if name in golden else 'faulty'} run"
        )
        for name in names
    )
