"""Striking stored tensors: parameters, buffers, gradients and optimizer state.

    param:layer.0.weight          before the forward
    buffer:norm.running_mean      before the forward
    grad:layer.0.weight           before its optimizer reads it
    state:layer.0.weight.exp_avg  before its optimizer reads it

Names may be globs. With ``scope="value"`` the strike is transient: a parameter or
buffer gets its right elements back before the optimizer steps (so that the update
starts from them) or when the step ends, a gradient or state after the optimizer has
stepped. What was written in the meantime stays: a momentum that the optimizer made of
the struck one, running statistics that the forward made. With ``scope="storage"`` it
persists.

Limits: of a tensor that a call writes in part (``index_put_``, a slice) it is the bits that
tell whether an element was written: NaN of NaN looks as if it was not, and is given back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook import faults
from fi_notebook.core.match import is_glob, module_matches, name_matches, unwrapped
from fi_notebook.engine.aim import Aim
from fi_notebook.engine.intercept import OPTIMIZER, Call, Watch
from fi_notebook.engine.outputs import schema_of, written
from fi_notebook.engine.storages import address_of, local_part, tensors_in
from fi_notebook.engine.stored_tensors import (
    BEFORE_FORWARD,
    model_tensors,
    optimizer_tensors,
    stored_site,
)
from fi_notebook.engine.world import speaker
from fi_notebook.errors import did_you_mean

if TYPE_CHECKING:
    from fi_notebook.engine.inject import Striker

__all__ = ["StoredStriker", "Transient"]

logger = logging.getLogger("fi_notebook")

_BEFORE_UPDATE = ("grad", "state")
_IN_PART = frozenset(
    f"{name}_"
    for name in (
        "index_put",
        "index_add",
        "index_copy",
        "index_fill",
        "index_reduce",
        "masked_fill",
        "masked_scatter",
        "put",
        "scatter",
        "scatter_add",
        "scatter_reduce",
    )
) | {"_index_put_impl_"}
"""Operators that write some elements of what they write."""


@dataclass(frozen=True, eq=False)
class Transient:
    """A strike that is taken back.

    Attributes:
        kind: Kind of the target.
        corruption: What was done.
        tensor: To which tensor.
        one_batch: Whether the next micro batch is to be without it.
    """

    kind: str
    corruption: faults.Corruption
    tensor: torch.Tensor
    one_batch: bool = False

    def remaining(self) -> Transient:
        """What of it still stands."""
        return replace(self, corruption=self.corruption.still_in(self.tensor))


class StoredStriker:
    """Strikes the stored tensors that the faults of a plan name.

    Args:
        aims: The faults, aimed; those at calls are passed over.
        watch: What tells of forwards and updates.
        striker: What strikes one tensor and records it.
    """

    def __init__(self, aims: Sequence[Aim], watch: Watch, striker: Striker) -> None:
        """Ask to be told of forwards and updates, if there is anything to strike."""
        self._aims = [aim for aim in aims if aim.fault.target.kind != "call"]
        self._watch = watch
        self._striker = striker
        self._to_undo: list[Transient] = []
        self._struck: tuple[int, set[tuple[str, str]]] = (-1, set())
        if self._aims:
            watch.begins.append(self._before_forward)
            watch.update_begins.append(self._before_update)
            watch.optimizer_ends.append(lambda _optimizer: self.undo(_BEFORE_UPDATE))
            watch.ends.append(lambda: self.undo(BEFORE_FORWARD))

    def before(self, call: Call) -> None:
        """Let go of struck tensors that a call is about to write whole, whatever their bits.

        What was struck for a forward is over with the next call that is the optimizer's own: of
        several evaluations of a closure, each.
        """
        if not self._to_undo:
            return
        if call.phase == OPTIMIZER:
            self._undo_of(self._watch.clock.stepping)
        elif call.op == "_amp_update_scale_":  # a GradScaler ends a step, skipped or not
            self.undo(BEFORE_FORWARD)
        made = {_place(tensor) for tensor in _written_whole(call)}
        fused = call.op.startswith("_fused_")  # says that it writes gradients, and does not
        self._to_undo = [
            transient
            for transient in self._to_undo
            if _place(transient.tensor) not in made or (fused and transient.kind == "grad")
        ]

    def undo(self, kinds: Sequence[str] | None = None, *, one_batch: bool = False) -> None:
        """Give transient strikes their right elements back, where nothing was written since."""
        due = [t for t in self._to_undo if kinds is None or t.kind in kinds]
        self._give_back([t for t in due if t.one_batch or not one_batch])

    def _undo_of(self, optimizer: Optimizer | None) -> None:
        """Give back what was struck before the forward, as an optimizer steps.

        A parameter that another optimizer may own stays struck: its backward may yet come.
        """
        groups = [] if optimizer is None else optimizer.param_groups
        mine = [parameter for group in groups for parameter in group["params"]]
        mine += [p for p in self._watch.table.model.parameters() if not p.requires_grad]
        places = {address_of(local_part(parameter)) for parameter in mine}
        struck = [t for t in self._to_undo if t.kind in BEFORE_FORWARD]
        self._give_back([t for t in struck if t.kind == "buffer" or address_of(t.tensor) in places])

    def _give_back(self, due: Sequence[Transient]) -> None:
        self._to_undo = [t for t in self._to_undo if t not in due]
        with torch.no_grad(), _disable_current_modes():
            for transient in reversed(due):
                transient.remaining().corruption.reversed().write_into(transient.tensor)

    def lift(self) -> list[Transient]:
        """Give right elements back for a while; `strike_again` takes what this gives."""
        struck, self._to_undo = self._to_undo, []
        lifted: list[Transient] = []
        with torch.no_grad(), _disable_current_modes():
            for transient in reversed(struck):
                lifted.append(transient.remaining())
                _write(lifted[-1].corruption.reversed(), transient.tensor)
        return lifted

    def strike_again(self, lifted: list[Transient]) -> None:
        """Put back what was lifted, where nothing was written since; these are no strikes."""
        with torch.no_grad(), _disable_current_modes():
            for transient in reversed(lifted):
                right = transient.corruption.reversed().still_in(transient.tensor)
                _write(right.reversed(), transient.tensor)
                self._to_undo.append(replace(transient, corruption=right.reversed()))

    def _before_forward(self, _module: nn.Module) -> None:
        number = max(self._watch.clock.micro_batch, 0)  # in inference it stays -1
        self.undo(one_batch=number > 0)
        for aim in self._aims:
            chosen = aim.fault.micro_batches
            due = number == 0 if chosen is None else number in chosen
            if aim.fault.target.kind in BEFORE_FORWARD and due:
                model = self._watch.table.model
                self._strike_all(aim, model_tensors(model, aim.fault.target.kind))

    def _before_update(self, optimizer: Optimizer) -> None:
        self._undo_of(optimizer)
        for aim in self._aims:
            kind = aim.fault.target.kind
            if kind not in BEFORE_FORWARD:
                aim.stepped += 1
                found = list(optimizer_tensors(self._watch, optimizer, kind))
                self._strike_all(aim, found)
                if not aim.reached and aim.due(self._watch.clock.step):
                    self._explain(aim, optimizer, self._every_name(found))

    def _strike_all(self, aim: Aim, found: Iterable[tuple[str, str, torch.Tensor]]) -> None:
        step = self._watch.clock.step
        aim.last_step = max(aim.last_step, step)
        if step < 0 or not aim.due(step):
            return
        if step != self._struck[0]:
            self._struck = (step, set())
        with _disable_current_modes():
            for name, module, tensor in found:
                names = self._watch.parameters.every_name(name)
                if not name_matches(aim.fault.target.op, names):
                    continue
                if _in_modules(aim, (module, *names)):
                    aim.reached += 1
                    self._strike(aim, name, module, local_part(tensor.detach()), step)
                elif not aim.reached:
                    aim.refusal = f"{aim.fault.target.kind}:{name} is outside the fault's modules"

    def _every_name(self, found: Iterable[tuple[str, str, torch.Tensor]]) -> list[str]:
        every = self._watch.parameters.every_name
        return [each for name, _, _ in found for each in every(name)]

    def _explain(self, aim: Aim, optimizer: Optimizer, found: list[str]) -> None:
        """Keep why an optimizer has no such tensor; a name that is wrong is told at once."""
        target, step, told = aim.fault.target, self._watch.clock.step, bool(aim.refusal)
        parameters = self._every_name(optimizer_tensors(self._watch, optimizer, "param"))
        glob = is_glob(target.op)
        if not (glob or any(_is_of(target.op, name) for name in parameters)):
            return  # the parameter is another optimizer's
        if target.kind == "grad":
            aim.refusal = f"there is no gradient {target.op!r} in step {step}"
            return
        owner = type(optimizer).__name__
        mine = [name for name in found if glob or _is_of(target.op, name.rpartition(".")[0])]
        if mine:
            aim.refusal = f"no state {target.op!r}{did_you_mean(target.op, mine)}"
            if not (told or glob):
                who = speaker(self._striker.rank)
                logger.error("%s%s: %s", who, aim.fault.id, aim.refusal)
        elif step <= aim.first_step:
            aim.refusal = (
                f"{owner} has no state yet in step {step}: it makes it in its first step; strike "
                "a later one"
            )
        else:
            aim.refusal = (
                f"{owner} holds no state of {target.op!r} in step {step}: it has not stepped the "
                "parameter, keeps none, or leaves it to another rank"
            )

    def _strike(self, aim: Aim, name: str, module: str, tensor: torch.Tensor, step: int) -> None:
        fault, kind = aim.fault, aim.fault.target.kind
        if kind in _BEFORE_UPDATE:  # once in a step: an optimizer may step another, or again
            if (fault.id, name) in self._struck[1]:
                return
            self._struck[1].add((fault.id, name))
        site, batch = stored_site(kind, name, module, tensor), self._watch.clock.micro_batch
        identity = faults.firing(fault, site, step, rank=self._striker.rank, micro_batch=batch)
        if not aim.armed or not faults.comes_up(fault.probability, fault.seed, *identity):
            return
        hit = self._striker.strike(
            aim,
            site,
            step,
            tensor,
            "stored",
            lambda: faults.corrupt(
                tensor,
                fault.model,
                fault.parameters,
                fault.elements,
                faults.generator(fault.seed, *identity, device=tensor.device),
            ),
        )
        if hit is not None and fault.scope == "value":
            one_batch = fault.micro_batches is not None
            self._to_undo.append(Transient(kind, hit[0], tensor, one_batch))


def _written_whole(call: Call) -> list[torch.Tensor]:
    """The tensors that a call writes every element of; not those that it writes some of."""
    names = schema_of(call.func).arguments
    given = dict(zip(names, call.args, strict=False)) | call.kwargs
    if not given.get("training", given.get("train", True)):
        return []  # batch norm leaves its statistics alone, whatever its schema says
    if call.op in _IN_PART or any(t.layout != torch.strided for t in tensors_in(call.args)):
        return []
    return tensors_in(written(call.func, call.args, call.kwargs))


def _place(tensor: torch.Tensor) -> tuple[int | None, int, int]:
    """Where the elements of a tensor lie, and how many they are."""
    return address_of(tensor), int(tensor.storage_offset()), tensor.numel()


def _is_of(name: str, parameter: str) -> bool:
    """Whether a gradient's or a state's name is that of a parameter."""
    return f"{unwrapped(name)}.".startswith(f"{unwrapped(parameter)}.")


def _in_modules(aim: Aim, names: Sequence[str]) -> bool:
    modules = aim.fault.modules
    return modules is None or any(module_matches(pattern, names) for pattern in modules)


def _write(corruption: faults.Corruption, tensor: torch.Tensor) -> None:
    """Write as if nobody had: a graph that saved the tensor does not notice."""
    with _unsafe_preserve_version_counter(tensor):
        corruption.write_into(tensor)
