"""What the page asks of one site: its figures, its values, and what a fault would do there.

    inspect    exact figures; values around an element where they are kept; refused models
    record     the values of a site, read while the golden step is run again
    preview    what the form's fault would change, refused where arming would refuse it
    arm        the form's fault, in the plan

Preview and arm make the same fault, so what is previewed is what is armed. Both refuse what the
session only warns of, in whatever steps: a row or bit that the tensor in sight does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fi_notebook import faults
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.site import Target
from fi_notebook.core.steps import Steps, ranks_of
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import counted
from fi_notebook.engine import arming
from fi_notebook.errors import SessionError
from fi_notebook.report.payload import site_payload
from fi_notebook.ui import values
from fi_notebook.ui.forms import refused_models
from fi_notebook.ui.messages import Request

if TYPE_CHECKING:
    from fi_notebook.session import Session
    from fi_notebook.ui.explorer import Explorer

__all__ = ["arm", "inspect", "preview", "record"]

_MOST_KEPT = 8  # tensors that the widget itself keeps, read when asked for


def arm(explorer: Explorer, request: Request) -> str:
    """Arm the fault of a request; gives its id."""
    session = explorer.session
    fault = _fault(session, request)
    if session.golden is not None:
        arming.check_fits(fault, session.golden)
    return session.add(fault).id


def inspect(explorer: Explorer, request: Request) -> dict[str, Any]:
    """Exact figures of a site, and its values around one element where they are kept."""
    row, golden = _row(explorer, request), _golden(explorer)
    answer = site_payload(golden, row) | {
        "recordable": True,
        "refused": refused_models(golden, row),
    }
    tensor = _kept(explorer, row)
    if tensor is None:
        return answer
    if not tensor.numel():
        return answer | {"why": "the tensor has no element", "recordable": False}
    view = request.fields.get("view", {})
    shape = list(tensor.shape)
    chosen = _inside(view.get("element"), shape)
    around = chosen or _struck(explorer.session, row)
    answer["values"] = values.window(tensor, _inside(view.get("corner"), shape), around)
    if chosen is not None:
        answer["element"] = values.element(tensor, chosen)
    return answer


def record(explorer: Explorer, request: Request) -> None:
    """Compute the values of a site and keep them for a while."""
    row = _row(explorer, request)
    while len(explorer.values) >= _MOST_KEPT:
        explorer.values.pop(next(iter(explorer.values)))
    golden = _golden(explorer)
    explorer.values[row] = golden.value(golden.site(row))


def preview(explorer: Explorer, request: Request) -> dict[str, Any]:
    """What the fault of a request would do to the recorded values; nothing runs."""
    session, golden = explorer.session, _golden(explorer)
    fault = _fault(session, request)
    arming.check_filters(fault, session.model)
    arming.check_fits(fault, golden)
    warning = arming.check_fault(fault, golden)
    row = _row(explorer, request)
    tensor = _kept(explorer, row)
    if tensor is None:
        return {"fault": fault.id, "note": warning or "the fault fits; its values are not kept"}
    found = values.preview(tensor, fault, golden.site(row))
    return found | {"fault": fault.id} | ({"note": warning} if warning else {})


def _fault(session: Session, request: Request) -> Fault:
    """The fault of a request, as it would stand in the plan."""
    fields = dict(request.fields)
    fields.pop("row", None)
    edited = fields.pop("fault", None)
    read: dict[str, Any] = {
        name: parse(fields.pop(name)) for name, parse in _STEPS.items() if name in fields
    }
    read |= {name: _exact(fields.pop(name)) for name in _WHOLE if name in fields}
    read["parameters"] = _parameters(fields["model"], fields.pop("parameters"))
    target = Target.parse(fields.pop("site"))
    given: dict[str, Any] = {"steps": Steps.parse(0)} | read | fields
    fault = Fault(session.next_id, target, **given)
    return fault if edited is None else _in_place(session.plan, edited, fault)


def _in_place(plan: FaultPlan, name: str, fault: Fault) -> Fault:
    """A fault under the name of another, with what the form does not show of that one."""
    old = plan[name]
    return replace(
        fault,
        id=name,
        enabled=old.enabled,
        modules=old.modules,
        code=old.code,
        phases=old.phases,
    )


_STEPS: dict[str, Callable[[Any], Steps]] = {
    "steps": Steps.parse,
    "micro_batches": partial(Steps.parse, what="micro_batches"),
    "ranks": ranks_of,
}
_WHOLE = ("seed", "times")
_NUMBERS = ("int", "ints", "float", "value")  # types of parameters that hold whole numbers


def _parameters(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they are meant: whole numbers that the page sent as text are numbers."""
    types = {each.name: each.type for each in faults.get(model).parameters}
    return {
        name: _exact(value) if types.get(name) in _NUMBERS else value
        for name, value in given.items()
    }


def _exact(value: Any) -> Any:
    """A whole number that was sent as text, since a page's numbers hold 53 bits only."""
    if isinstance(value, list):
        return [_exact(each) for each in value]
    written = isinstance(value, str) and re.fullmatch(r"-?\d{1,400}", value, re.ASCII)
    return int(value) if written else value


def _golden(explorer: Explorer) -> Trace:
    golden = explorer.session.golden
    if golden is None:
        raise SessionError("there is no trace yet; run session.trace() first")
    return golden


def _row(explorer: Explorer, request: Request) -> int:
    row: int = request.fields["row"]
    if not 0 <= row < len(_golden(explorer)):
        raise SessionError(
            f"the trace has no site row {row}; it has {counted(len(_golden(explorer)), 'site')}"
        )
    return row


def _kept(explorer: Explorer, row: int) -> Any:
    """The golden tensor of a row, if it need not be computed again."""
    if row in explorer.values:
        return explorer.values[row]
    return explorer.session.kept(_golden(explorer).site(row))


def _inside(asked: object, shape: list[int]) -> list[int] | None:
    """The element that was asked for, brought inside the tensor; None where none was."""
    if not isinstance(asked, list) or len(asked) != len(shape):
        return None
    return [max(0, min(int(at), size - 1)) for at, size in zip(asked, shape, strict=True)]


def _struck(session: Session, row: int) -> list[int] | None:
    """The element of a site that the last replay changed most, where it struck there."""
    run = session.run
    if run is None:
        return None
    site = run.comparison.golden.site(row)
    found = [e for i in run.injections if i.site == site and i.step == 0 for e in i.elements]
    return list(max(found, key=_change).index) if found else None


def _change(change: Any) -> float:
    """How far an element moved; what is no number moved furthest."""
    moved = abs(change.after - change.before)
    return moved if moved == moved else float("inf")  # noqa: PLR0124 - only NaN is unlike itself
