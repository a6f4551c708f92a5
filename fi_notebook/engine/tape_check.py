"""Whether a tape may be trusted: every call, carried out alone, gives its golden bits."""

from __future__ import annotations

import torch

from fi_notebook.core.valueless import UNWRITTEN
from fi_notebook.engine.outputs import outputs
from fi_notebook.engine.tape import Tape, TapeCall
from fi_notebook.engine.tape_recorder import plain_of, same_plain

__all__ = ["verify"]


def verify(tape: Tape) -> str:
    """Carry out every call alone on its golden inputs.

    Returns:
        The first call that does not give its golden bits, or ``""``.
    """
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            bad = (call for call in tape.calls if not _repeats(tape, call))
            return next((call.name for call in bad), "")
    finally:
        torch.set_rng_state(state)


def _repeats(tape: Tape, call: TapeCall) -> bool:
    if not call.reads or call.refusal or call.blind:
        return True
    if call.func.overloadpacket.__name__ in UNWRITTEN:
        return True
    if call.outputs and all(site.alias for site in call.outputs) and not call.writes:
        return True
    written_to = call.writes.items()
    copies = {number: tape.versions[number][after - 1].copied() for number, after in written_to}
    tensors = {id(s): copies[s.storage].at(s) for s in call.reads if s.storage in copies}
    if call.draws is not None:
        torch.set_rng_state(call.draws[0])
    args, kwargs = call.filled(tensors)
    result = call.made(args, kwargs)
    if not all(copies[number].equals(tape.versions[number][after]) for number, after in written_to):
        return False
    made = outputs(call.func, args, kwargs, result)
    return same_plain(call.plain, plain_of(result)) and all(
        site.alias
        or output.output in call.workspaces
        or (site.slot.fits(output.tensor) and site.slot.equals(output.tensor))
        for site, output in zip(call.outputs, made, strict=True)
    )
