"""The population of a campaign: every fault that it may try.

    population = Population.of(trace, sites="relu", specs=[FaultSpec("bitflip")])
    len(population)                 bits × elements × sites × steps
    population[417]                 one fault at one place

Every point of the population is one fault at one place, and every point is equally
likely to be drawn (see `sample`).

Limits: where no sites are named, they are the outputs that hold computed floating-point
values: no views, no bookkeeping, no collectives. Name views to strike them, and stored
tensors (``param:*.weight``, ``buffer:…``, ``grad:…``); not ``state:…``, which an optimizer
makes as it goes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any

from fi_notebook import faults
from fi_notebook.campaign.draws import CampaignError, draw
from fi_notebook.campaign.places import Places
from fi_notebook.core.fault import Elements
from fi_notebook.core.site import Site, module_text
from fi_notebook.core.words import counted
from fi_notebook.errors import FaultError, did_you_mean

__all__ = ["ONE", "FaultSpec", "Point", "Population", "Sites", "group_of"]

ONE = "one"
"""The elements of a fault that strikes one element, each of them a point of its own."""

Sites = str | Site | Mapping[str, Any] | Iterable[Any] | Callable[[Site], bool] | None


@dataclass(frozen=True)
class FaultSpec:
    """What goes wrong, wherever it is.

    Attributes:
        model: Name of the fault model.
        parameters: Its parameters.
        elements: Which elements; None for those of the campaign.
        scope: ``value`` or ``storage``.
    """

    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    elements: Elements | int | None = None
    scope: str = "value"

    @classmethod
    def of(cls, given: Any) -> FaultSpec:
        """Read a name, a pair of name and parameters, or a mapping.

        Raises:
            CampaignError: It is none of these.
            FaultError: There is no such model or parameter.
        """
        if isinstance(given, FaultSpec):
            spec = given
        elif isinstance(given, str):
            spec = cls(given)
        elif isinstance(given, Mapping):
            known = ("model", "parameters", "elements", "scope")
            for key in given:
                if key not in known:
                    raise CampaignError(f"no {key!r} in a fault{did_you_mean(str(key), known)}")
            spec = cls(**given)
        elif isinstance(given, Sequence) and len(given) == 2:
            spec = cls(*given)
        else:
            raise CampaignError(
                f"cannot read the fault {given!r}; expected a name such as 'bitflip', a pair such "
                "as ('scale', {'factor': 2}), or a mapping with 'model' and 'parameters'"
            )
        faults.check(spec.model, spec.parameters)
        return spec

    @classmethod
    def all_of(cls, given: Any) -> list[FaultSpec]:
        """Read one, or several; see `of`."""
        several = [given] if isinstance(given, (str, FaultSpec, Mapping)) else given
        if not isinstance(several, Iterable):
            raise CampaignError(f"faults is {given!r}; expected names such as ['bitflip']")
        return [cls.of(each) for each in several]

    def bits(self, dtype: str) -> tuple[int, ...]:
        """The bits that are points of their own; empty where the model has none to choose."""
        bit = self.parameters.get("bit")
        if self.model == "bitflip" and len(self.parameters) == 1 and type(bit) is int:
            return (bit,)
        if self.model != "bitflip" or set(self.parameters) - {"field"}:
            return ()
        layout = faults.bits.format_of(dtype)
        low, high = 0, layout.bits - 1
        if "field" in self.parameters:
            if self.parameters["field"] not in layout.fields:
                return ()
            low, high = layout.fields[self.parameters["field"]]
        return tuple(range(low, high + 1))


@dataclass(frozen=True, slots=True)
class Point:
    """One fault at one place.

    Attributes:
        row: Row of the site.
        step: Step in which it strikes.
        spec: What goes wrong.
        bit: Which bit is flipped, or None.
        element: Flat index of the element, or None for the spec's own selection.
    """

    row: int
    step: int
    spec: FaultSpec
    bit: int | None
    element: int | None


@dataclass(frozen=True, slots=True)
class _Block:
    """Points that differ in bit and element alone."""

    row: int
    step: int
    spec: FaultSpec
    bits: tuple[int | None, ...]
    elements: Sequence[int | None]

    def __len__(self) -> int:
        return len(self.bits) * len(self.elements)

    def point(self, number: int) -> Point:
        element, bit = divmod(number, len(self.bits))
        return Point(self.row, self.step, self.spec, self.bits[bit], self.elements[element])


class Population:
    """Every fault that a campaign may try.

    Args:
        blocks: Its points, in blocks.
        places: The sites that there are.
    """

    def __init__(self, blocks: Sequence[_Block], places: Places) -> None:
        """Count the points."""
        self.places = places
        self.blocks = list(blocks)
        self._ends = list(accumulate(len(block) for block in self.blocks))

    def __len__(self) -> int:
        """How many points there are."""
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, number: int) -> Point:
        """A point by number, from 0."""
        block = bisect_right(self._ends, number)
        before = self._ends[block - 1] if block else 0
        return self.blocks[block].point(number - before)

    @property
    def sites(self) -> list[Site]:
        """The sites that have points."""
        rows = dict.fromkeys(block.row for block in self.blocks)
        return self.places.sites(list(rows))

    def by(self, name: str) -> dict[str, Population]:
        """The population divided into groups; see `group_of`."""
        sites = dict(zip(dict.fromkeys(b.row for b in self.blocks), self.sites, strict=True))
        groups: dict[str, list[_Block]] = {}
        for block in self.blocks:
            site = sites[block.row]
            for part in _parts(block) if name in ("bit", "field") else (block,):
                groups.setdefault(group_of(name, site, part.point(0)), []).append(part)
        return {group: Population(blocks, self.places) for group, blocks in groups.items()}

    @classmethod
    def of(
        cls,
        places: Places,
        *,
        sites: Sites = None,
        specs: Sequence[FaultSpec] = (FaultSpec("bitflip"),),
        elements: Elements | int = ONE,
        steps: Sequence[int] = (0,),
        seed: int = 0,
    ) -> Population:
        """All that a campaign of these sites, faults and elements may try.

        Args:
            places: The sites that there are.
            sites: Targets, filters or a test of each site; None is every computed value.
            specs: What goes wrong.
            elements: ``one`` (each element is a point), a number (that many of each
                site, drawn), or a selection that a fault takes.
            steps: Steps in which the faults strike.
            seed: Seed of the elements that are drawn.

        Raises:
            CampaignError: No fault fits any of the sites.
        """
        rows = _rows(places, sites)
        blocks, refusals = [], []
        for row, site in zip(rows, places.sites(rows), strict=True):
            for spec in specs:
                wanted = elements if spec.elements is None else spec.elements
                try:
                    block = _block(row, site, spec, wanted, steps[0], seed)
                except FaultError as error:
                    refusals.append(f"{site}: {error}")
                    continue
                blocks += [
                    _Block(row, step, block.spec, block.bits, block.elements) for step in steps
                ]
        if not blocks:
            why = f" ({refusals[0]})" if refusals else ""
            raise CampaignError(
                f"no fault of the campaign fits any of its {counted(len(rows), 'site')}{why}; "
                "expected sites of the golden run that hold floating-point values"
            )
        return cls(blocks, places)


def _block(
    row: int, site: Site, spec: FaultSpec, elements: Elements | int, step: int, seed: int
) -> _Block:
    """The points of one site and one spec; refuses what cannot be there."""
    numel = prod(site.shape)
    chosen: Sequence[int | None]
    if elements == ONE:
        chosen = range(numel)
    elif isinstance(elements, int):
        count = min(elements, numel)
        chosen = sorted(draw(numel, count, seed, f"elements of {site}"))
    else:
        chosen = (None,)
        faults.check_elements(elements)
        spec = FaultSpec(spec.model, spec.parameters, elements, spec.scope)
    bits: tuple[int | None, ...] = spec.bits(site.dtype) or (None,)
    sample = {"bit": bits[0]} if bits[0] is not None else spec.parameters
    tried: Elements = {"index": 0} if chosen != (None,) else spec.elements  # type: ignore[assignment]  # set above
    faults.check_tensor(spec.model, sample, tried, site.dtype, site.shape)
    if not chosen:
        raise FaultError("it holds no values")
    return _Block(row, step, spec, bits, chosen)


def _parts(block: _Block) -> Iterator[_Block]:
    """The block, one bit at a time."""
    for bit in block.bits:
        yield _Block(block.row, block.step, block.spec, (bit,), block.elements)


_FILTERS = ("op", "module", "phase", "code", "parameter")
_SITES = (
    "expected a target such as 'relu*1:0' or 'param:*.weight', filters such as "
    "{'module': 'layer1', 'phase': 'backward'}, a list of these, or a test of each site"
)


def _rows(places: Places, sites: Sites) -> list[int]:
    """Rows of the sites that are named, else of everything that is computed."""
    if sites is None:
        return places.computed
    if callable(sites):
        every = places.computed
        return [row for row, site in zip(every, places.sites(every), strict=True) if sites(site)]
    if isinstance(sites, Mapping):
        for key in sites:
            if key not in _FILTERS:
                raise CampaignError(f"no {key!r} in sites{did_you_mean(str(key), _FILTERS)}")
        found, computed = places.trace.find(**sites), set(places.computed)
        rows = [row for row in map(places.row, found) if "op" in sites or row in computed]
    elif isinstance(sites, Site):
        rows = [places.row(sites)]
    elif isinstance(sites, str):
        rows = places.named(sites)
    elif isinstance(sites, Iterable) and not isinstance(sites, (bytes, bytearray)):
        rows = [row for item in sites for row in _rows(places, item)]
    else:
        raise CampaignError(f"cannot read the sites {sites!r}; {_SITES}")
    if not rows:
        raise CampaignError(f"the sites {sites!r} choose nothing; {_SITES}")
    return sorted(set(rows))


def group_of(name: str, site: Site, point: Point) -> str:
    """The group that a point belongs to.

    Args:
        name: ``site``, ``layer`` (module), ``phase``, ``op``, ``bit``, ``field``,
            ``model`` or ``step``.
        site: The point's site.
        point: The point.

    Raises:
        CampaignError: There is no such grouping.
    """
    if name not in _GROUPS:
        raise CampaignError(f"nothing is grouped by {name!r}{did_you_mean(name, _GROUPS)}")
    return _GROUPS[name](site, point)


def _field(site: Site, point: Point) -> str:
    if point.bit is None:
        return str(point.spec.parameters.get("field", "-"))
    return faults.bits.format_of(site.dtype).field_of(point.bit)


_GROUPS: Mapping[str, Callable[[Site, Point], str]] = {
    "site": lambda site, _: str(site),
    "layer": lambda site, _: layer_of(site),
    "phase": lambda site, _: site.phase,
    "op": lambda site, _: site.op,
    "bit": lambda _, point: "-" if point.bit is None else str(point.bit),
    "field": _field,
    "model": lambda _, point: point.spec.model,
    "step": lambda _, point: str(point.step),
}


def layer_of(site: Site) -> str:
    """The module of a site, ``(model)`` for the model itself."""
    return module_text(site.module)
