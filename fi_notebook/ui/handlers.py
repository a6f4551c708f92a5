"""What the kernel does for each request of the page.

Quick ones answer at once. What steps the model (`replay`, `trace`, `sweep` …) goes to the
explorer's executor, what reads kept values to its reader; both answer when done.
Every handler ends in a reply or in an error, never in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.trace import Trace
from fi_notebook.errors import SessionError
from fi_notebook.report.payload import site_payload
from fi_notebook.session import SessionCancelled
from fi_notebook.ui import publish, sweeps, values
from fi_notebook.ui.messages import Request

if TYPE_CHECKING:
    from fi_notebook.ui.explorer import Explorer

__all__ = ["handle"]

Handler = Callable[["Explorer", Request], Any]

_MOST_KEPT = 8  # tensors that the widget itself keeps, read when asked for


def handle(explorer: Explorer, request: Request) -> None:
    """Do what a request asks, here or on a worker, and answer it."""
    if request.kind in _STEPPING:
        _enqueue(explorer, request)
    elif request.kind in _READING:
        explorer.reader.submit(_job(explorer, request, _READING[request.kind]))
    else:
        explorer.reply(request, _QUICK[request.kind](explorer, request))


def _enqueue(explorer: Explorer, request: Request) -> None:
    """Hand a request to the worker, and say so where it has to wait for a cell."""
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
        except Exception as error:  # noqa: BLE001 - shown in the widget, with its traceback
            explorer.fail(error, request.id)
            explorer.announce("idle")
        else:
            explorer.reply(request, data)

    return job


def _golden(explorer: Explorer) -> Trace:
    golden = explorer.session.golden
    if golden is None:
        raise SessionError("there is no trace yet; run session.trace() first")
    return golden


def _row(explorer: Explorer, request: Request) -> int:
    row: int = request.fields["row"]
    if not 0 <= row < len(_golden(explorer)):
        raise SessionError(
            f"the trace has no site row {row}; it has {len(_golden(explorer))} sites"
        )
    return row


def _ready(explorer: Explorer, request: Request) -> None:
    explorer.show_everything()


def _plotly(explorer: Explorer, request: Request) -> None:
    explorer.tell(publish.plotly())


def _ping(explorer: Explorer, request: Request) -> None:
    """Nothing more than the receipt that every request is given."""


def _arm(explorer: Explorer, request: Request) -> str:
    fields = dict(request.fields)
    parameters = fields.pop("parameters")
    site, model = fields.pop("site"), fields.pop("model")
    fault = explorer.session.arm(site, model, **fields, **parameters)
    return fault.id


def _disarm(explorer: Explorer, request: Request) -> None:
    name = request.fields.get("fault")
    if name is None:
        explorer.session.disarm()
    else:
        explorer.session.disarm(_fault(explorer, name))


def _enable(explorer: Explorer, request: Request) -> None:
    explorer.session.set_enabled(_fault(explorer, request.fields["fault"]), request.fields["on"])


def _fault(explorer: Explorer, name: str) -> Fault:
    try:
        return explorer.session.plan[name]
    except KeyError:
        raise SessionError(f"the plan holds no fault {name!r}; it was disarmed") from None


def _undo(explorer: Explorer, request: Request) -> None:
    explorer.session.undo()


def _redo(explorer: Explorer, request: Request) -> None:
    explorer.session.redo()


def _stop(explorer: Explorer, request: Request) -> None:
    explorer.executor.drop()
    if explorer.sweep is not None and explorer.sweep.campaign.running:
        explorer.sweep.campaign.cancel()  # ends after the injection that is being made
    else:
        explorer.session.cancel()


def _save(explorer: Explorer, request: Request) -> dict[str, str]:
    path = Path(request.fields["path"])
    explorer.session.plan.save(path)
    return {"path": str(path)}


def _load(explorer: Explorer, request: Request) -> int:
    return len(explorer.session.load_plan(Path(request.fields["path"])))


def _export(explorer: Explorer, request: Request) -> dict[str, str]:
    path = Path(request.fields["path"])
    explorer.session.save_html(path)
    return {"path": str(path)}


def _replay(explorer: Explorer, request: Request) -> None:
    explorer.session.replay(steps=request.fields.get("steps", 1))


def _trace(explorer: Explorer, request: Request) -> None:
    explorer.session.trace()


def _record(explorer: Explorer, request: Request) -> None:
    row = _row(explorer, request)
    while len(explorer.values) >= _MOST_KEPT:
        explorer.values.pop(next(iter(explorer.values)))
    golden = _golden(explorer)
    explorer.values[row] = golden.value(golden.site(row))


def _inspect(explorer: Explorer, request: Request) -> dict[str, Any]:
    """Exact figures of a site, and its values around one element where they are kept."""
    row = _row(explorer, request)
    answer = site_payload(_golden(explorer), row) | {"recordable": True}
    tensor = _kept(explorer, row)
    if tensor is None:
        return answer
    index = _index(request.fields.get("view", {}).get("element"), tensor)
    if index is None:
        return answer | {"why": "the tensor has no element", "recordable": False}
    shown = {"values": values.window(tensor, index), "element": values.element(tensor, index)}
    return answer | shown


def _kept(explorer: Explorer, row: int) -> Any:
    """The golden tensor of a row, if it need not be computed again."""
    if row in explorer.values:
        return explorer.values[row]
    return explorer.session.kept(_golden(explorer).site(row))


def _index(asked: object, tensor: Any) -> list[int] | None:
    """The element that was asked for, brought inside the tensor."""
    shape = list(tensor.shape)
    if 0 in shape:
        return None
    given = asked if isinstance(asked, list) and len(asked) == len(shape) else [0] * len(shape)
    return [max(0, min(int(at), size - 1)) for at, size in zip(given, shape, strict=True)]


def _preview(explorer: Explorer, request: Request) -> dict[str, Any]:
    fields, golden = request.fields, _golden(explorer)
    site = golden.site(golden.row(fields["site"]))
    tensor = _kept(explorer, golden.row(site))
    elements = fields.get("elements", "all")
    if tensor is None:
        checked = faults.check(fields["model"], fields["parameters"])
        faults.check_tensor(fields["model"], checked, elements, site.dtype, site.shape)
        return {"note": "the fault fits; the values are not kept, so press Replay to see it"}
    seed = fields.get("seed", 0)
    return values.preview(tensor, fields["model"], fields["parameters"], elements, seed)


_STEPPING: dict[str, Handler] = {
    "replay": _replay,
    "trace": _trace,
    "record": _record,
    "plan_sweep": sweeps.plan,
    "sweep": sweeps.run,
}
_READING: dict[str, Handler] = {"inspect": _inspect, "preview": _preview, "export": _export}
_QUICK: dict[str, Handler] = {
    "ready": _ready,
    "resync": _ready,
    "plotly": _plotly,
    "ping": _ping,
    "arm": _arm,
    "disarm": _disarm,
    "enable": _enable,
    "undo": _undo,
    "redo": _redo,
    "stop": _stop,
    "save": _save,
    "load": _load,
}
