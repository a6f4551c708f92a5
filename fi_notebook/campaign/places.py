"""Where a campaign may strike: outputs of calls, by their row in the trace, then stored tensors.

    places = Places(trace, stored_sites(model))
    places.named("relu")             rows of every output of relu
    places.named("param:*.weight")   rows of stored tensors, after those of the trace
    places.sites(rows)

Limits: the sites are those of one golden run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from fi_notebook import faults
from fi_notebook.campaign.draws import CampaignError
from fi_notebook.core.lookup import make_sites
from fi_notebook.core.match import name_matches
from fi_notebook.core.site import Site, Target
from fi_notebook.core.trace import FLAGS, Trace
from fi_notebook.errors import did_you_mean

__all__ = ["Places"]

_NOT_COMPUTED = sum(1 << FLAGS.index(name) for name in ("view", "folded", "collective"))


class Places:
    """Every site that a campaign may name, by row.

    Args:
        trace: The golden run.
        stored: Stored tensors, as sites.
        names: Every name of those that have several, by the first.
    """

    def __init__(
        self,
        trace: Trace,
        stored: Sequence[Site] = (),
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Number the stored tensors after the sites of the trace."""
        self.trace = trace
        self._stored = list(stored)
        self._names = {site.op: (names or {}).get(site.op, (site.op,)) for site in self._stored}
        self._rows = {str(site): len(trace) + n for n, site in enumerate(self._stored)}

    def row(self, site: Site | str) -> int:
        """Row of a site.

        Raises:
            SiteError: There is no such site.
        """
        stored = self._rows.get(str(site))
        return self.trace.row(site) if stored is None else stored

    def sites(self, rows: Sequence[int]) -> list[Site]:
        """The sites of several rows, in their order."""
        end = len(self.trace)
        made = iter(make_sites(self.trace, np.asarray([r for r in rows if r < end], dtype=int)))
        return [next(made) if row < end else self._stored[row - end] for row in rows]

    def named(self, text: str) -> list[int]:
        """Rows of a target, with ``other/`` added where only such calls were made.

        Raises:
            CampaignError: There is no such site.
        """
        target = Target.parse(text)
        if target.kind != "call":
            return self._named_stored(target)
        found = self.trace.find(target)
        if not found and target.counted:
            found = self.trace.find(f"other/{text}")
        if not found:
            raise CampaignError(f"no site {text!r}: {self.trace.missing(target)}")
        return [self.trace.row(site) for site in found]

    def _named_stored(self, target: Target) -> list[int]:
        if target.kind == "state":
            raise CampaignError(
                f"cannot try {str(target)!r}: an optimizer makes its state as it goes; expected "
                "param:, buffer: or grad: and a name"
            )
        kind = [site for site in self._stored if site.kind == target.kind]
        found = [s for s in kind if name_matches(target.op, self._names[s.op])]
        if not found:
            near = did_you_mean(target.op, [n for site in kind for n in self._names[site.op]])
            raise CampaignError(f"no {target.kind} {target.op!r}{near}")
        return [self.row(site) for site in found]

    @cached_property
    def computed(self) -> list[int]:
        """Rows of the outputs that hold computed floating-point values."""
        columns, calls, tables = self.trace.site_columns, self.trace.calls, self.trace.tables
        formats = faults.bits.FORMATS
        kinds = [formats[n].kind if n in formats else "" for n in tables.dtypes]
        floating = np.asarray([kind in ("float", "complex") for kind in kinds], dtype=bool)
        numel = np.asarray([prod(shape) for shape in tables.shapes], dtype=np.int64)
        flags = calls["flags"][columns["call"]]
        known = ~np.isnan(columns["norm"]) | (columns["nan"] >= 0)  # statistics were taken of it
        chosen = floating[columns["dtype"]] & (numel[columns["shape"]] > 0) & known
        rows: list[int] = np.flatnonzero(chosen & ((flags & _NOT_COMPUTED) == 0)).tolist()
        return rows
