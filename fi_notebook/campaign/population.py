"""The population of a campaign: every fault that it may try.

    population = Population.of(Places(trace), sites="relu", specs=[FaultSpec("bitflip")])
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
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import Any

from fi_notebook import faults
from fi_notebook.campaign.draws import CampaignError, draw
from fi_notebook.campaign.places import Places
from fi_notebook.campaign.specs import ONE, FaultSpec
from fi_notebook.core.fault import Elements, Fault
from fi_notebook.core.site import Site, module_text
from fi_notebook.core.steps import Steps
from fi_notebook.core.words import counted
from fi_notebook.engine.arming import check_contribution, check_fault, check_fits
from fi_notebook.errors import FaultError, did_you_mean

__all__ = [
    "Point",
    "Population",
    "Sites",
    "check_group",
    "group_of",
]

Sites = str | Site | Mapping[str, Any] | Iterable[Any] | Callable[[Site], bool] | None


@dataclass(frozen=True, slots=True)
class Point:
    """One fault at one place.

    Attributes:
        row: Row of the site.
        step: Step in which it strikes.
        spec: What goes wrong.
        bit: Which bit is flipped, or None.
        element: Flat index of the element, or None for the spec's own selection.
        drawn: Whether its element is one of a few that were drawn.
    """

    row: int
    step: int
    spec: FaultSpec
    bit: int | None
    element: int | None
    drawn: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of its fault."""
        return dict(self.spec.parameters) if self.bit is None else {"bit": self.bit}

    @property
    def elements(self) -> Any:
        """The elements of its fault."""
        return self.spec.elements if self.element is None else {"index": self.element}

    def fault(self, site: Site, seed: int = 0) -> Fault:
        """Its fault, at the site of its row."""
        return Fault(
            id="f1",
            target=site.target,
            model=self.spec.model,
            parameters=self.parameters,
            elements=self.elements,
            steps=Steps.parse(self.step),
            seed=seed,
            scope=self.spec.scope,
        )


@dataclass(frozen=True, slots=True)
class _Block:
    """Points that differ in bit and element alone."""

    row: int
    step: int
    spec: FaultSpec
    bits: tuple[int | None, ...]
    elements: Sequence[int | None]
    draws: bool = False
    drawn: bool = False

    def __len__(self) -> int:
        return len(self.bits) * len(self.elements)

    def point(self, number: int) -> Point:
        element, bit = divmod(number, len(self.bits))
        where = (self.bits[bit], self.elements[element])
        return Point(self.row, self.step, self.spec, *where, drawn=self.drawn)


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

    def __repr__(self) -> str:
        """How many points and sites there are; the points are too many to print."""
        sites = len({block.row for block in self.blocks})
        return f"<Population of {counted(len(self), 'fault')} at {counted(sites, 'site')}>"

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

    @property
    def has_draws(self) -> bool:
        """Whether a point draws, so that it is another fault with another seed."""
        return any(block.draws for block in self.blocks)

    @property
    def has_no_end(self) -> bool:
        """Whether every point draws, so that more faults can be tried than there are points."""
        return all(block.draws for block in self.blocks)

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
        blocks, refusals, draws = list[_Block](), list[str](), dict[int, bool]()
        for row, site in zip(rows, places.sites(rows), strict=True):
            for number, spec in enumerate(specs):
                wanted = elements if spec.elements is None else spec.elements
                try:
                    block = _block(row, site, spec, wanted, steps[0], seed)
                    if faults.get(spec.model).kind == "call":  # it may need what no value tells
                        fault = block.point(0).fault(site)
                        check_fault(fault, places.trace)
                        check_fits(fault, places.trace)
                except FaultError as error:
                    refusals.append(f"{site}: {error}")
                    continue
                if number not in draws:  # it is the same at every site
                    draws[number] = _draws(block.point(0), site)
                blocks += [replace(block, step=step, draws=draws[number]) for step in steps]
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
    check_contribution(spec.scope, site.target)
    numel = prod(site.shape)
    chosen: Sequence[int | None]
    if elements == ONE:
        chosen = range(numel)
    elif isinstance(elements, int):
        count = min(elements, numel)
        chosen = sorted(draw(numel, count, seed, f"elements of {site}"))
    else:
        chosen = (None,)
        spec = FaultSpec(spec.model, spec.parameters, elements, spec.scope)
    bits: tuple[int | None, ...] = spec.bits(site.dtype) or (None,)
    sample = {"bit": bits[0]} if bits[0] is not None else spec.parameters
    tried: Elements = {"index": 0} if chosen != (None,) else spec.elements  # type: ignore[assignment]  # set above
    faults.check_tensor(spec.model, sample, tried, site.dtype, site.shape)
    if not chosen:
        raise FaultError("it holds no values")
    drawn = chosen != (None,) and len(chosen) < numel
    return _Block(row, step, spec, bits, chosen, drawn=drawn)


def _draws(point: Point, site: Site) -> bool:
    """Whether the fault of a point takes random numbers at its site."""
    fault = (point.spec.model, point.parameters, point.elements)
    return faults.draws(*fault, site.dtype, site.shape)


def _parts(block: _Block) -> Iterator[_Block]:
    """The block, one bit at a time."""
    for bit in block.bits:
        yield replace(block, bits=(bit,))


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
            ``model``, ``fault`` (the model with its parameters) or ``step``.
        site: The point's site.
        point: The point.

    Raises:
        CampaignError: There is no such grouping.
    """
    check_group(name)
    return _GROUPS[name](site, point)


def check_group(name: str) -> None:
    """Refuse what nothing is grouped by.

    Raises:
        CampaignError: There is no such grouping; names the nearest.
    """
    if not isinstance(name, str) or name not in _GROUPS:
        raise CampaignError(f"nothing is grouped by {name!r}{did_you_mean(str(name), _GROUPS)}")


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
    "fault": lambda _, point: str(point.spec),
    "step": lambda _, point: str(point.step),
}


def layer_of(site: Site) -> str:
    """The module of a site, ``(model)`` for the model itself."""
    return module_text(site.module)
