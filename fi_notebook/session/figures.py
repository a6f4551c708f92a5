"""The pictures of the widget as plotly figures, for the last replay of a session.

    session.figures.values("relu*2:0")
    session.figures.propagation()
    session.figures.tensor_diff("f2", dark=True)
    session.figures.training()

Each is the function of the same name in ``fi_notebook.report.figures``, which takes
the records themselves.

Limits: the bits of an element are drawn by the page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fi_notebook.core.injection import Injection
from fi_notebook.core.run import Run
from fi_notebook.core.site import Site
from fi_notebook.errors import SessionError
from fi_notebook.report import figures

if TYPE_CHECKING:
    from fi_notebook.report.figures import Figure
    from fi_notebook.session.session import Session

__all__ = ["Figures"]


class Figures:
    """The pictures of a session and of its last replay.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        """Keep the session; a picture is drawn when it is asked for."""
        self._session = session

    def __repr__(self) -> str:
        """The pictures that there are."""
        names = ", ".join(name for name in vars(Figures) if not name.startswith("_"))
        return f"<Figures of {self._session!r}: {names}>"

    def values(self, site: Site | str, *, dark: bool = False) -> Figure:
        """The golden values of a site, as a matrix.

        Args:
            site: The site, or its text such as ``relu*2:0``.
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was traced.
            SiteError: The step made no such call or output.
        """
        golden = self._session.golden
        if golden is None:
            raise SessionError("nothing was traced yet; call trace() first")
        return figures.values(golden.site(golden.row(site)), golden.value(site), dark=dark)

    def tensor_diff(self, fault: str | None = None, *, dark: bool = False) -> Figure:
        """Histograms of the struck tensor, before and after.

        Args:
            fault: Id of a fault; the first that struck if left out.
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed, or the fault did not strike.
            NoSuchFaultError: The last replay had no such fault; names the nearest.
        """
        return figures.tensor_diff(self._injection(fault), dark=dark)

    def difference_heatmap(self, fault: str | None = None, *, dark: bool = False) -> Figure:
        """Where in the struck tensor, and by how much.

        Args:
            fault: Id of a fault; the first that struck if left out.
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed, or the fault did not strike.
            NoSuchFaultError: The last replay had no such fault; names the nearest.
        """
        return figures.difference_heatmap(self._injection(fault), dark=dark)

    def scatter(self, fault: str | None = None, *, dark: bool = False) -> Figure:
        """Golden against faulty values of the struck tensor.

        Args:
            fault: Id of a fault; the first that struck if left out.
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed, or the fault did not strike.
            NoSuchFaultError: The last replay had no such fault; names the nearest.
        """
        return figures.scatter(self._injection(fault), dark=dark)

    def propagation(self, *, dark: bool = False) -> Figure:
        """The error of every call, in execution order.

        Args:
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed yet.
        """
        run = self._run
        return figures.propagation(run.comparison, detections=run.detections, dark=dark)

    def gradients(self, *, dark: bool = False) -> Figure:
        """How far gradients and parameters are from the golden ones, by name.

        Args:
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed yet.
        """
        return figures.gradients(self._run.comparison, dark=dark)

    def tree_heat(self, *, dark: bool = False) -> Figure:
        """Modules by phase, with the worst error of each.

        Args:
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed yet.
        """
        return figures.tree_heat(self._run.comparison, dark=dark)

    def training(self, *, dark: bool = False) -> Figure:
        """Loss, norms and metrics over the replayed steps, golden against faulty.

        Args:
            dark: Whether the page is dark.

        Returns:
            The figure.

        Raises:
            SessionError: Nothing was replayed yet.
        """
        return figures.training(self._run, dark=dark)

    @property
    def _run(self) -> Run:
        if self._session.run is None:
            raise SessionError("nothing was replayed yet; call replay() first")
        return self._session.run

    def _injection(self, fault: str | None) -> Injection:
        """The first injection of a fault, or of the run; raises where there is none."""
        injections = self._run.injections
        found = [i for i in injections if fault in (None, i.fault)]
        if found:
            return found[0]
        if fault is not None:
            _ = self._run.plan[fault]  # it refuses one that it does not hold
        reasons = "; ".join(f"{n.fault}: {n.reason}" for n in self._run.not_injected)
        raise SessionError(f"nothing was injected, so there is no tensor to draw ({reasons})")
