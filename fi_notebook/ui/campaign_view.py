"""The live view of a campaign: progress, time left, rates and pictures while it runs.

    campaign.show()          # in a cell of its own, or before the run
    campaign.run()

All that it shows is the state of the widget itself: a frame, which is small, and the
pictures, which take longer to draw. A frame that comes late is overtaken by the next, and
a page that is opened again has the last one. Stop keeps what is done; so does an
interrupted kernel.

Limits: at most ten updates a second, and as many as take a tenth of the time.
Stop is heard while a cell runs where ipykernel hears widgets meanwhile (see `fi.doctor`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets

from fi_notebook import assets
from fi_notebook.report.figures_json import templates
from fi_notebook.report.snapshot_campaign import campaign_snapshot
from fi_notebook.ui.campaign_payload import frame, pictures
from fi_notebook.ui.executor import Coalescer
from fi_notebook.ui.plotly_source import plotly_source
from fi_notebook.ui.shown import ShowsItself, drawing

if TYPE_CHECKING:
    from fi_notebook.campaign.counted import Counted

__all__ = ["CampaignView"]


class CampaignView(ShowsItself, anywidget.AnyWidget):
    """The widget of one campaign."""

    _esm = assets.page("board")
    _css = assets.style("campaign")
    _plotly = traitlets.Unicode().tag(sync=True)
    _control = traitlets.Unicode().tag(sync=True)
    _templates = traitlets.Unicode().tag(sync=True)
    _frame = traitlets.Unicode("{}").tag(sync=True)
    _pictures = traitlets.Unicode('{"figures": {}, "texts": {}}').tag(sync=True)
    __repr__ = ShowsItself.__str__

    def __init__(self, campaign: Counted) -> None:
        """Show a campaign.

        Args:
            campaign: The campaign, before, while or after it runs.
        """
        self._campaign = campaign
        self._frames = Coalescer(drawing(self, self._send_frame), sparing=True)
        self._drawings = Coalescer(drawing(self, self._send_pictures), sparing=True)
        self.control = ipywidgets.Widget()
        super().__init__(
            _plotly=plotly_source().model_id,
            _control=self.control.model_id,
            _templates=json.dumps(templates()),
        )
        for each in (self.control, self):
            each.on_msg(self._heard)
        self._end = campaign.subscribe(self._changed)
        self._changed()

    def close(self) -> None:
        """Let go of the campaign and of the page."""
        self._end()
        self._close_displays()
        self.control.close()
        super().close()

    def _changed(self) -> None:
        """Show what there is; the last of it at once."""
        self._frames.put("frame", True)
        self._drawings.put("pictures", True)
        if not self._campaign.running:
            self._frames.flush()
            self._drawings.flush()
        for shown in self._displays:
            shown.changed()
            if not self._campaign.running:
                shown.flush()

    def _send_frame(self) -> None:
        self._frame = json.dumps(frame(self._campaign))

    def _send_pictures(self) -> None:
        self._pictures = json.dumps(pictures(self._campaign))

    def _heard(self, widget: Any, content: object, _buffers: object) -> None:
        """Give a receipt at once, so that the next one is heard too; then stop, if asked."""
        widget.send("received")
        if content == {"kind": "stop"}:
            self._campaign.cancel()

    def _static(self) -> dict[str, str]:
        """A static result, for a page that has no widgets, or no kernel."""
        shown, columns = frame(self._campaign), self._campaign.results.columns()
        html = campaign_snapshot(shown["words"], columns, shown["rates"])
        return {"text/html": html, "text/plain": shown["words"]}
