"""Whether a fault can strike in the golden run: judged when it is armed.

What can never be (an unknown module, bit 70) is refused; what the golden run merely did not
make (call 9 of 2, row 9 of 4) is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from torch import nn

from fi_notebook import faults
from fi_notebook.core.chosen import chosen_rows, takes_late, within, without_late
from fi_notebook.core.fault import LIMIT, SCOPES, Anchor, Fault
from fi_notebook.core.lookup import find_rows, make_sites
from fi_notebook.core.match import CodeFilter, check_modules, check_phases
from fi_notebook.core.site import Site, Target
from fi_notebook.core.trace import FLAGS, Trace
from fi_notebook.core.unfit import Asked, Made
from fi_notebook.core.whole import is_whole
from fi_notebook.core.words import agreed, counted
from fi_notebook.engine.aim import LATE
from fi_notebook.engine.collectives import is_collective, qualified_operator
from fi_notebook.engine.modules import ModuleTable
from fi_notebook.engine.operators import composed
from fi_notebook.engine.stored_tensors import BEFORE_FORWARD, check_stored, dtypes_of
from fi_notebook.errors import FaultError, did_you_mean

__all__ = [
    "anchored",
    "check_contribution",
    "check_fault",
    "check_filters",
    "check_fits",
    "typed",
    "unlike_headless",
    "unmet",
]

_STRUCK_IN = {True: ("forward",), False: ("optimizer", "backward")}
"""Phases that a stored tensor may be said to be struck in: by whether before the forward."""

_POOLS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d")
_UNCHECKED = {f"{pool}_backward" for pool in _POOLS} | {"_unsafe_index", "_unsafe_index_put"}
"""Operators whose kernels do not check the indices that they are given."""

_IN_PLACE, _VIEW, _COLLECTIVE, _UNSAFE = (
    1 << FLAGS.index(name) for name in ("in place", "view", "collective", "unsafe view")
)


def check_filters(fault: Fault, model: nn.Module) -> None:
    """Refuse filters that choose nothing whatever a step does.

    Args:
        fault: The fault.
        model: The model that it is for.

    Raises:
        SiteError: An unknown module or phase, or an unreadable source line.
        FaultError: A model, parameter or element selection that cannot be.
    """
    faults.check(fault.model, fault.parameters)
    faults.check_elements(fault.elements)
    table = ModuleTable(model)
    check_modules(fault.modules or (), (*table.names, *table.parameters), table.infos[0].kind)
    _check_stored(fault, model)
    for line in fault.code:
        CodeFilter.parse(line)
    check_phases(fault.phases)
    if fault.scope not in SCOPES:
        raise FaultError(f"no scope {fault.scope!r}{did_you_mean(str(fault.scope), SCOPES)}")
    check_contribution(fault.scope, fault.target)
    _check_ranks(fault)
    _check_trigger(fault)


def _check_trigger(fault: Fault) -> None:
    """Refuse an id, seed, probability or number of times that no plan could hold."""
    if not isinstance(fault.id, str) or not fault.id:
        raise FaultError(f"id is {fault.id!r}; expected a text such as 'f1'")
    if not is_whole(fault.seed, 0) or fault.seed >= LIMIT:
        raise FaultError(f"seed is {fault.seed!r}; expected a whole number from 0 below 2**63")
    number = isinstance(fault.probability, (int, float)) and not isinstance(fault.probability, bool)
    if not number or not 0 <= fault.probability <= 1:
        raise FaultError(f"probability is {fault.probability!r}; expected a number from 0 to 1")
    if fault.times is not None and (not is_whole(fault.times, 1) or fault.times >= LIMIT):
        raise FaultError(
            f"times is {fault.times!r}; expected a whole number from 1 below 2**63, or None for "
            "no limit"
        )


def _check_ranks(fault: Fault) -> None:
    """Refuse what makes ranks wait for each other for ever."""
    if fault.model == "wrong_reduction" and fault.ranks is not None:
        raise FaultError("wrong_reduction is made by all ranks together; leave ranks out")


def check_contribution(scope: str, target: Target) -> None:
    """Refuse contributions to nothing.

    Raises:
        FaultError: The scope is for collectives, and the target is none.
    """
    if scope == "contribution" and not is_collective(qualified_operator(target.op)):
        raise FaultError(
            f"scope 'contribution' is for collectives; {str(target)!r} is none; "
            f"expected one such as 'c10d::allreduce_'"
        )


def _check_stored(fault: Fault, model: nn.Module) -> None:
    if fault.target.kind == "call":
        return
    if faults.get(fault.model).kind != "value":
        raise FaultError(f"{fault.model} is for calls; {str(fault.target)!r} is a stored tensor")
    check_stored(fault.target, model)
    struck = _STRUCK_IN[fault.target.kind in BEFORE_FORWARD]
    if fault.code or (fault.phases and not set(struck) & set(fault.phases)):
        raise FaultError(
            f"{str(fault.target)!r} is no call: it stands on no source line, and is struck in the "
            f"{struck[0]}; leave code and phases out"
        )
    if fault.micro_batches is not None and fault.target.kind not in BEFORE_FORWARD:
        raise FaultError(
            f"{str(fault.target)!r} is struck once in a step, before its optimizer steps; "
            "leave micro_batches out, or strike the backward call that makes the gradient"
        )


def _sites(fault: Fault, golden: Trace) -> list[Site]:
    """The sites of the golden run that a fault chooses."""
    return make_sites(golden, chosen_rows(fault, golden))


def _late_alone(fault: Fault, golden: Trace) -> bool:
    """Whether all that it could choose is passed over for being after the update."""
    found = find_rows(golden, fault.target)
    late = not takes_late(fault) and not len(without_late(golden, found))
    return late and len(found) > 0


def _call_of(golden: Trace, site: Site) -> int:
    """Row of the call of a site."""
    return int(golden.site_columns["call"][golden.row(site)])


def check_fault(fault: Fault, golden: Trace) -> str:
    """Judge a fault against the golden run.

    Returns:
        What the golden run did not make, as a warning, or ``""``.

    Raises:
        FaultError: Its fault model needs what none of the calls that it chooses is.
    """
    made, chosen = golden.info.get("forwards", 0), fault.micro_batches
    if chosen is not None and made and not any(number in chosen for number in range(made)):
        return f"the step has {counted(made, 'micro batch')}, counted from 0; none is {chosen}"
    if fault.target.kind != "call":
        return ""
    rows = chosen_rows(fault, golden)
    if not len(rows):
        if fault.target.op not in golden.tables.ops:
            return golden.missing(fault.target) + composed(qualified_operator(fault.target.op))
        if _late_alone(fault, golden):
            return f"{str(fault.target)!r} was {LATE}"
        return golden.missing(fault.target) or _unfit(fault, golden)
    sites = make_sites(golden, rows)
    flags = golden.calls["flags"][golden.site_columns["call"][rows]].tolist()
    _check_needs(fault, sites, flags)
    _check_views(fault, sites, flags, golden)
    return _misfit(fault, sites) or _unchecked(golden, sites)


def check_fits(fault: Fault, golden: Trace) -> None:
    """Refuse a fault that fits no golden tensor which it chooses, whatever its steps.

    Raises:
        FaultError: A row, an element or a bit that none of them has.
    """
    if fault.target.kind == "call":
        misfit = _misfit(fault, _sites(fault, golden))
        if misfit:
            raise FaultError(misfit)


def _unfit(fault: Fault, golden: Trace) -> str:
    """Why the filters of a fault leave none of the calls that its target names."""
    asked = Asked.of(fault.target, fault.phases, fault.modules, fault.code, fault.micro_batches)
    rows = find_rows(golden, Target.parse(asked.op))
    if not takes_late(fault):
        rows = without_late(golden, rows)
    inside = within(golden, rows, ("",) if fault.modules is None else fault.modules)
    calls = golden.site_columns["call"][rows]
    micro_batches = golden.calls["micro_batch"][calls]
    made = [
        Made(site.overload, site.phase, site.module, here, golden.frames(call), micro_batch)
        for site, here, call, micro_batch in zip(
            make_sites(golden, rows),
            inside.tolist(),
            calls.tolist(),
            micro_batches.tolist(),
            strict=True,
        )
    ]
    numbered = " (calls are numbered through the whole step)" * (fault.target.call is not None)
    why = asked.unfit(made) or f"no call fits {str(fault.target)!r} and its filters"
    return f"{why}{numbered}{_backward_names(fault, golden)}"


def _backward_names(fault: Fault, golden: Trace) -> str:
    """Backward operators of a fault's own with calls within its filters, as a hint, or ``""``.

    They have names of their own: ``native_layer_norm_backward`` of ``native_layer_norm``.
    """
    begins = [op for op in golden.tables.ops if op.startswith(f"{fault.target.op}_backward")]
    others = {op: replace(fault, target=Target(op)) for op in begins}
    found = [repr(op) for op, other in others.items() if len(chosen_rows(other, golden))][:3]
    return f"; {', '.join(found)} {agreed(len(found), 'have')} calls there" if found else ""


def unlike_headless(fault: Fault, golden: Trace) -> str:
    """What an injector of a training loop makes of an ``other/…`` call, where it is not that.

    There such calls are numbered from the step's first training forward.
    """
    target, calls = fault.target, golden.calls
    if target.kind != "call" or target.counted:
        return ""
    sites = golden.find(target)
    first = calls["counted"].argmax() if calls["counted"].any() else len(calls["counted"])
    rows = [_call_of(golden, site) for site in sites]
    if rows and max(rows) < first:
        return (
            f"{str(target)!r} is before the step's first training forward; a training loop has "
            "no such number there, and an Injector does not strike it"
        )
    if not rows or target.call is None:
        return ""
    same = (calls["op"] == calls["op"][rows[0]]) & ~calls["counted"]
    early = int(same[:first].sum())
    number = target.call - early
    return f"an Injector numbers {str(target)!r} from the forward on, as {number}" if early else ""


def _check_needs(fault: Fault, sites: Sequence[Site], flags: Sequence[int]) -> None:
    reasons = [unmet(fault.model, site.op, flag) for site, flag in zip(sites, flags, strict=True)]
    if all(reasons):
        raise FaultError(f"{fault.model} {reasons[0]}")


def unmet(model: str, op: str, flags: int) -> str:
    """What a fault model needs of a call that the call has not, as a reason, or ``""``.

    Args:
        model: Name of the fault model.
        op: Operator packet of the call.
        flags: Its flags in the trace.
    """
    needs = faults.get(model).needs
    if "collective" in needs and not flags & _COLLECTIVE:
        return f"is for collectives; {op} is none"
    if "call" in needs and not flags & _IN_PLACE:
        return f"needs a call that writes an argument, such as 'addcdiv_'; {op} writes none"
    return ""


def _check_views(fault: Fault, sites: Sequence[Site], flags: Sequence[int], golden: Trace) -> None:
    if fault.scope == "storage":
        if fault.steps.last == 0 and all(_is_expanded(golden, site) for site in sites):
            raise FaultError(
                f"{sites[0]} gives each element of its input several times, and they share memory: "
                "one write would change several. Arm with scope='value', or strike the input"
            )
        return
    for site, flag in zip(sites, flags, strict=True):
        if flag & _UNSAFE and flag & _VIEW:
            raise FaultError(
                f"{site} is a view whose memory is written later in the step; a copy of it "
                "would miss that write. Arm with scope='storage' to strike the memory itself"
            )


def _is_expanded(golden: Trace, site: Site) -> bool:
    """Whether a site is known to be a view with more elements than what it is of."""
    call = _call_of(golden, site)
    rows = golden.input_sites[slice(*golden.input_offsets[call : call + 2])]
    made = [golden.site(int(row)).shape for row in rows if row >= 0]
    return site.op == "expand" and any(prod(shape) < prod(site.shape) for shape in made)


def _misfit(fault: Fault, sites: Sequence[Site]) -> str:
    """What no golden tensor of these sites allows, or ``""``."""
    refusals = [_refusal(fault, *kind) for kind in {(s.dtype, s.shape) for s in sites}]
    return f"{sites[0]}: {refusals[0]}" if refusals and all(refusals) else ""


def _unchecked(golden: Trace, sites: Sequence[Site]) -> str:
    """A warning of places that a kernel reads without a look whether they can be."""
    for site in sites:
        if not site.dtype.startswith("int"):
            continue
        reads = np.flatnonzero(golden.input_sites == golden.row(site))
        calls = np.searchsorted(golden.input_offsets, reads, side="right") - 1
        ops = {golden.tables.ops[row] for row in golden.calls["op"][calls].tolist()} & _UNCHECKED
        if ops:
            return (
                f"{site} holds places that {min(ops)} takes unseen: with wrong ones torch may read "
                "outside its memory, and end this process"
            )
    return ""


def _refusal(fault: Fault, dtype: str, shape: tuple[int, ...]) -> str:
    try:
        faults.check_tensor(fault.model, fault.parameters, fault.elements, dtype, shape)
    except FaultError as error:
        return str(error)
    return ""


def anchored(fault: Fault, golden: Trace) -> Anchor | None:
    """Where the one call that a fault chooses stood in the golden run, else None."""
    if fault.target.kind != "call" or fault.target.call is None:
        return None
    sites = golden.find(fault.target)
    return Anchor.of(sites[0]) if sites else None


def typed(fault: Fault, model: nn.Module, golden: Trace | None) -> Fault:
    """A fault with the dtype of what it strikes, where that is one and known.

    Args:
        fault: The fault.
        model: Where the stored tensors are.
        golden: Where the calls are, if there is a trace.

    Returns:
        The fault; without a dtype where it strikes several, or nobody knows.
    """
    if fault.target.kind != "call":
        found = dtypes_of(fault.target, model)
    else:
        found = set() if golden is None else {site.dtype for site in _sites(fault, golden)}
    return replace(fault, dtype=found.pop() if len(found) == 1 else "")
