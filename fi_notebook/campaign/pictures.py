"""The pictures and texts of a campaign's results.

campaign.figures.heat_map()
print(summary(results))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fi_notebook.analysis.words import about
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.statistics import HARM
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import agreed, counted, spoken
from fi_notebook.report.table import table

if TYPE_CHECKING:
    from fi_notebook.campaign.statistics import Coverage, Rate
    from fi_notebook.report.figures import Figure

__all__ = ["Pictures", "save_html", "summary"]


class Pictures:
    """Every picture of a campaign; each is drawn when it is asked for.

    Args:
        results: The rows.
    """

    def __init__(self, results: Results) -> None:
        """Keep the rows."""
        self._results = results

    def heat_map(self, *, dark: bool = False) -> Figure:
        """The share of harm by layer and bit."""
        from fi_notebook.report.figures import campaign

        return campaign.heat_map(self._results.columns(), dark=dark)

    def outcomes(self, by: str = "layer", *, dark: bool = False) -> Figure:
        """The shares of the outcomes by layer, phase, op, field or site."""
        from fi_notebook.report.figures import campaign

        return campaign.outcomes(self._results.columns(), by, dark=dark)

    def timeline(self, *, dark: bool = False) -> Figure:
        """The share of harm along the step."""
        from fi_notebook.report.figures import campaign

        return campaign.timeline(self._results.columns(), dark=dark)

    def losses(self, *, dark: bool = False) -> Figure:
        """The loss over the replayed steps, fanned by outcome."""
        from fi_notebook.report.figures import campaign

        return campaign.losses(self._results.columns(), dark=dark)


_HEADER = ("outcome", "count", "of", "rate", "from", "to")


def summary(results: Results, by: str = "all") -> str:
    """The rates as text, with their intervals, and what detectors caught where that is known."""
    rates = table(["group", *_HEADER], _cells(results, by), right=range(2, 7))
    caught = _caught(results)
    if not caught:
        return rates
    return f"{rates}\n\n{table(['detector', *_HEADER], caught, right=range(2, 7))}"


def _cells(results: Results, by: str) -> list[list[str]]:
    if by == "all":
        kept = results.rates(of=(*OUTCOMES, HARM)) if len(results) else []
    else:
        kept = [rate for rate in results.rates(by) if rate.count]
    return [_line(rate.group, rate.count, rate) for rate in kept]


def _caught(results: Results) -> list[list[str]]:
    """What each detector caught, in the cells of `_cells`."""
    return [_line(found.detector, found.caught, found) for found in results.coverage()]


def _line(name: str, count: int, found: Rate | Coverage) -> list[str]:
    """One share of injections, cell by cell; of none there is no rate."""
    shares = (found.rate, found.low, found.high)
    rate, low, high = ("-" if math.isnan(share) else f"{share:.2%}" for share in shares)
    return [name, spoken(found.outcome), f"{count:,}", f"{found.n:,}", rate, low, high]


def facts(results: Results) -> list[str]:
    """What was done, in plain sentences."""
    rows = results.rows
    if not rows:
        return ["No injection was made."]
    first = rows[0]
    early, sliced = (sum(flags) / len(rows) for flags in _shares(results))
    known = {str(sorted(row.environment.items())) for row in rows if row.environment}
    what, way = first.campaign, "were followed along the golden run's tape"
    steps = int(what.get("steps", 1))
    said = [
        f"{results.made} on {what.get('make_session')}, seed {what.get('seed')}.",
        *_plan(what),
        f"{counted(steps, 'step')} {agreed(steps, 'were')} replayed for each.",
        f"{about(early)} ended early, since nothing could change any more; {about(sliced)} {way}.",
        "Intervals are Wilson's, at 95 % confidence; not injected is in no denominator.",
    ]
    if len(known) > 1:
        said.append(f"The rows come from {len(known)} different environments.")
    return said


def _plan(what: Mapping[str, Any]) -> list[str]:
    """What they were chosen from, where the rows say it."""
    if "population" not in what:
        return []
    there = counted(what["population"], "possible fault")
    strategy, tool = what.get("strategy"), f"fi_notebook {what.get('fi_notebook')}".strip()
    strata = f" by {what['strata']}" if "strata" in what else ""
    return [f"Chosen from {there} ({', '.join(what['faults'])}): {strategy}{strata}, by {tool}."]


def _shares(results: Results) -> tuple[list[bool], list[bool]]:
    return [row.early for row in results], [row.way == "slice" for row in results]


def save_html(results: Results, path: str | Path) -> Path:
    """Write the campaign as one file that opens offline."""
    from fi_notebook.report.campaign_html import save_campaign

    titles = {"Rates": "all", "By layer": "layer", "By phase": "phase", "By operator": "op"}
    titles |= {"By bit field": "field", "By fault model": "model"}
    tables = {title: _cells(results, by) for title, by in titles.items()}
    caught = _caught(results)
    if caught:
        tables["What detectors caught"] = caught
    return save_campaign(results.columns(), tables, facts(results), path)
