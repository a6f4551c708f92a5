"""What the kernel does for each request of the page.

Quick ones answer at once. What steps the model (`replay`, `trace`, `sweep` …) goes to the
explorer's executor, what reads kept values to its reader; both answer when done.
Every handler ends in a reply or in an error, never in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fi_notebook import config
from fi_notebook.errors import PlanError, SessionError
from fi_notebook.report.export import save_html
from fi_notebook.session import SessionCancelled
from fi_notebook.ui import inspecting, publish, sweeps
from fi_notebook.ui.messages import Request

if TYPE_CHECKING:
    from fi_notebook.ui.explorer import Explorer

__all__ = ["handle"]

Handler = Callable[["Explorer", Request], Any]


def handle(explorer: Explorer, request: Request) -> None:
    """Do what a request asks, here or on a worker, and answer it."""
    if request.kind in _STEPPING:
        _enqueue(explorer, request)
    elif request.kind in _READING:
        explorer.awaited.add(request.id)
        explorer.reader.submit(_job(explorer, request, _READING[request.kind]))
    else:
        explorer.reply(request, _QUICK[request.kind](explorer, request))


def _enqueue(explorer: Explorer, request: Request) -> None:
    """Hand a request to the worker, and say so where it has to wait for a cell."""
    explorer.awaited.add(request.id)
    if explorer.executor.cell:
        explorer.announce("queued", f"{explorer.executor.cell} is running")

    def dropped() -> None:
        explorer.fail(SessionError("stopped before it began"), request.id)
        explorer.announce("idle")

    explorer.executor.submit(_job(explorer, request, _STEPPING[request.kind]), dropped)


def _job(explorer: Explorer, request: Request, handler: Handler) -> Callable[[], None]:
    def job() -> None:
        try:
            data = handler(explorer, request)
        except SessionCancelled as stopped:
            explorer.reply(request)
            explorer.announce("idle", str(stopped))
        except BaseException as error:  # noqa: BLE001 - shown with its traceback, sys.exit too
            explorer.fail(error, request.id)
            explorer.announce("idle")
        else:
            explorer.reply(request, data)

    return job


def _ready(explorer: Explorer, request: Request) -> list[int]:
    """Show everything; the answer is which requests are still worked on."""
    explorer.show_everything()
    return list(explorer.awaited)


def _plotly(explorer: Explorer, request: Request) -> None:
    explorer.tell(publish.plotly())


def _ping(explorer: Explorer, request: Request) -> None:
    """Nothing more than the receipt that every request is given."""


def _disarm(explorer: Explorer, request: Request) -> None:
    name = request.fields.get("fault")
    if name is None:
        explorer.session.disarm()
    else:
        explorer.session.disarm(name)


def _enable(explorer: Explorer, request: Request) -> None:
    explorer.session.set_enabled(request.fields["fault"], request.fields["on"])


def _undo(explorer: Explorer, request: Request) -> None:
    explorer.session.undo()


def _redo(explorer: Explorer, request: Request) -> None:
    explorer.session.redo()


def _stop(explorer: Explorer, request: Request) -> None:
    explorer.executor.stop()


def _save(explorer: Explorer, request: Request) -> dict[str, str]:
    """Save the plan; what is in its place and no plan stays: a box is easily mistyped."""
    path = _file(request, "injector.json")
    if path.exists() and not config.is_plan(path):
        raise PlanError(
            f"{path} is there already and is no plan, so it was kept; type another name, or "
            "delete it first"
        )
    explorer.session.plan.save(path)
    return _saved(path)


def _load(explorer: Explorer, request: Request) -> dict[str, Any]:
    path = _file(request, "injector.json")
    return {"path": str(path), "faults": len(explorer.session.load_plan(path))}


def _export(explorer: Explorer, request: Request) -> dict[str, str]:
    path = _file(request, "fi-report.html")
    if explorer.session.golden is None:  # a trace steps the model: not here, beside a cell
        raise SessionError("there is no trace to be saved yet; press Trace first")
    save_html(explorer.session, path)
    return _saved(path)


def _file(request: Request, sample: str) -> Path:
    """The file that a request names, without blanks around it."""
    name = request.fields["path"].strip()
    if not name:
        raise SessionError(f"no file is named; type a name such as {sample}")
    path = Path(name)
    folder = path.is_dir() or name.endswith("/")
    if folder or (path.exists() and not path.is_file()):
        what = "a folder" if folder else "no plain file"
        raise SessionError(f"{name} is {what}; type the name of a file such as {sample}")
    return path


def _saved(path: Path) -> dict[str, str]:
    """What was saved: the name as it was given, and where that is."""
    return {"path": str(path), "whole": str(path.resolve())}


def _replay(explorer: Explorer, request: Request) -> None:
    steps = request.fields.get("steps", 1)
    if steps > _MOST_STEPS:
        raise SessionError(
            f"{steps:,} steps are more than the explorer replays, {_MOST_STEPS:,}; enter fewer, "
            "or call session.replay(steps=…)"
        )
    explorer.session.replay(steps=steps)


def _trace(explorer: Explorer, request: Request) -> None:
    explorer.session.trace()


_MOST_STEPS = 100_000
_STEPPING: dict[str, Handler] = {
    "replay": _replay,
    "trace": _trace,
    "record": inspecting.record,
    "plan_sweep": sweeps.plan,
    "sweep": sweeps.run,
}
_READING: dict[str, Handler] = {
    "inspect": inspecting.inspect,
    "preview": inspecting.preview,
    "export": _export,
}
_QUICK: dict[str, Handler] = {
    "ready": _ready,
    "resync": _ready,
    "plotly": _plotly,
    "ping": _ping,
    "arm": inspecting.arm,
    "arm_injection": sweeps.arm,
    "disarm": _disarm,
    "enable": _enable,
    "undo": _undo,
    "redo": _redo,
    "stop": _stop,
    "save": _save,
    "load": _load,
}
