"""The part of a campaign that is what came of it: rates, differences, tables, pictures.

    campaign.rates(by="layer")
    campaign.compare(other)
    campaign.figures.heat_map()

Nothing runs here; before `Campaign.run` there is nothing to count, and while it runs,
what is counted is what was made so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fi_notebook.campaign.progress import Progress
from fi_notebook.campaign.results import Rates, Results
from fi_notebook.campaign.statistics import CONFIDENCE, Contrast, Coverage
from fi_notebook.core.listeners import Listeners

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.campaign.pictures import Pictures
    from fi_notebook.ui.campaign_view import CampaignView

__all__ = ["Counted"]


class Counted:
    """What has results, and listeners who are told of more.

    Attributes:
        progress: How far the last run came; None before the first.
        running: Whether injections are being made.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.progress: Progress | None = None
        self.running = False
        self._rows: Callable[[], Results] = partial(Results, ())
        self._listeners: Listeners[[]] = Listeners()
        self._view: CampaignView | None = None
        self._cancelled = False

    @property
    def results(self) -> Results:
        """What was made so far."""
        return self._rows()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Tell a listener, in the thread of the run, that there is more; undone by a call.

        Args:
            listener: Called without arguments; one that raises is logged, and the run goes on.

        Returns:
            What ends it.

        Raises:
            TypeError: It cannot be called.
        """
        return self._listeners.subscribe(listener)

    def rates(
        self,
        by: str = "all",
        confidence: float = CONFIDENCE,
        of: str | Iterable[str] | None = None,
    ) -> Rates:
        """The rate of each outcome by `results.BY`, with Wilson intervals.

        Args:
            by: What the injections are grouped by, such as ``layer``, ``phase`` or ``field``.
            confidence: Of the intervals, from 0 to 1.
            of: Outcomes, ``harm``, ``masked`` or ``nan``, which are several together, or
                ``every``, also those that never came; None is the outcomes that came.

        Returns:
            One rate for each group and outcome; their `to_pandas` is a table.

        Raises:
            ArgumentError: They cannot be grouped by this, or there is no such outcome.
        """
        return self.results.rates(by, confidence, of)

    def compare(self, other: Counted | Results, confidence: float = CONFIDENCE) -> list[Contrast]:
        """Every outcome of this campaign and another one, with the interval of the difference.

        Args:
            other: The other campaign, or its results.
            confidence: Of the intervals, from 0 to 1.

        Returns:
            One contrast for each outcome.
        """
        theirs = other.results if isinstance(other, Counted) else other
        return self.results.compare(theirs, confidence)

    def coverage(self, confidence: float = CONFIDENCE) -> list[Coverage]:
        """How often each detector caught injections that did harm, and those of each outcome.

        Args:
            confidence: Of the intervals, from 0 to 1.

        Returns:
            See `Results.coverage`; nothing where the campaign is not ``full``.
        """
        return self.results.coverage(confidence)

    def to_pandas(self) -> pd.DataFrame:
        """One line per injection.

        Returns:
            The table, by the injections' numbers.
        """
        return self.results.to_pandas()

    @property
    def figures(self) -> Pictures:
        """The pictures of the campaign."""
        return self.results.figures

    def save_html(self, path: str | Path) -> Path:
        """Write the campaign as one file that opens offline.

        Args:
            path: The file; one that is there is replaced.

        Returns:
            The path of the file.

        Raises:
            OSError: It cannot be written there.
        """
        return self.results.save_html(path)

    def show(self) -> CampaignView:
        """The live view: progress, time left and pictures while it runs, and a Stop button.

        Returns:
            The widget; display it before `Campaign.run`.
        """
        if self._view is None:
            from fi_notebook.ui.campaign_view import CampaignView

            self._view = CampaignView(self)
        return self._view

    def cancel(self) -> None:
        """Stop a campaign that is running, from any thread; what is done is kept."""
        self._cancelled = True
