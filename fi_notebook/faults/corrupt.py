"""Striking a tensor: choose elements, compute what becomes of them, write it.

    generator = faults.generator(seed, "f1", step)
    corruption = faults.corrupt(tensor, "bitflip", {"bit": 30}, {"count": 1}, generator)
    corruption.changed            # 1
    corruption.write_into(tensor) # only that element, only that bit

`corrupt` reads the tensor and changes nothing. It keeps the chosen values before and
after, and no copy of anything else: with one element of a large tensor that is all the
memory it costs, with ``elements="all"`` it is two tensors of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from fi_notebook.core.fault import Elements
from fi_notebook.core.injection import ElementChange
from fi_notebook.errors import FaultError
from fi_notebook.faults import elements as selections
from fi_notebook.faults.bits import bit_view, dtype_name, format_of, unsigned
from fi_notebook.faults.registry import OWN, Context, FaultModel, check, get
from fi_notebook.faults.seeds import generator as generator_of
from fi_notebook.faults.tensors import coordinates, materialised, put, refusal, take

__all__ = ["Corruption", "apply", "check_tensor", "corrupt", "differing", "draws"]


@dataclass(frozen=True, eq=False)
class Corruption:
    """What a fault does to a tensor, before it is written anywhere.

    Attributes:
        indices: Flat row-major indices of the chosen elements, int64, on the tensor's
            device; None for every element.
        before: The chosen values before, of one dimension.
        after: The chosen values after, of the same dtype.
    """

    indices: torch.Tensor | None
    before: torch.Tensor
    after: torch.Tensor

    def write_into(self, tensor: torch.Tensor) -> None:
        """Write the values after into the chosen elements of a tensor, bit for bit.

        Args:
            tensor: The tensor that was struck, or one of its shape and dtype.

        Raises:
            FaultError: Its dtype differs, or its elements share memory.
        """
        if tensor.dtype != self.after.dtype:
            raise FaultError(f"cannot write {self.after.dtype} values into {tensor.dtype}")
        put(tensor, self.indices, self.after)

    def corrupted_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the tensor with the values after in it; strides as they were.

        Args:
            tensor: What was struck.

        Returns:
            A copy in the same shape, dtype and device, with the faulty values in it.
        """
        copy = materialised(tensor)
        self.write_into(copy)
        return copy

    def still_in(self, tensor: torch.Tensor) -> Corruption:
        """The part of it that a tensor still holds: elements that nothing wrote since, or alike.

        Args:
            tensor: What was struck.

        Returns:
            The corruption of those elements alone whose bits are the values after.
        """
        rows = (~differing(take(tensor, self.indices), self.after)).nonzero().view(-1)
        if len(rows) == len(self.after):
            return self
        flat = rows if self.indices is None else self.indices[rows]
        return Corruption(flat, take(self.before, rows), take(self.after, rows))

    def reversed(self) -> Corruption:
        """What takes it back: the values before where those after are."""
        return Corruption(self.indices, self.after, self.before)

    @property
    def changed(self) -> int:
        """How many elements changed their bits."""
        return int(differing(self.before, self.after).sum())

    def changes(self, shape: tuple[int, ...], limit: int = 64) -> tuple[ElementChange, ...]:
        """The changed elements in row-major order.

        Args:
            shape: Shape of the tensor.
            limit: How many of them at most.

        Returns:
            The first few elements with values and bits, before and after.
        """
        rows = differing(self.before, self.after).nonzero().view(-1)[:limit]
        flat = rows if self.indices is None else self.indices[rows]
        columns = [column.tolist() for column in coordinates(flat, tuple(shape))]
        where = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
        before, after = take(self.before, rows), take(self.after, rows)
        return tuple(
            map(
                ElementChange,
                where,
                _numbers(before),
                _numbers(after),
                _patterns(before),
                _patterns(after),
            )
        )


def differing(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Whether the bits of each element differ: a NaN that was left alone does not.

    Args:
        one: A tensor of one dimension.
        other: One of the same shape and dtype.

    Returns:
        A boolean for each element.
    """
    found = bit_view(one) != bit_view(other)
    return found.any(dim=-1) if one.dtype.is_complex else found


def _numbers(values: torch.Tensor) -> list[Any]:
    """Values as Python numbers."""
    plain = values.double() if values.dtype.is_floating_point else values
    return (plain.to(torch.complex128) if plain.dtype.is_complex else plain).tolist()


def _patterns(values: torch.Tensor) -> list[int | None]:
    """Raw bits as unsigned integers; None for complex values."""
    layout = format_of(values.dtype)
    if layout.parts == 2:
        return [None] * len(values)
    return [unsigned(number, layout.bits) for number in bit_view(values).tolist()]


def check_tensor(
    name: str,
    parameters: Mapping[str, Any],
    elements: Elements,
    dtype: str,
    shape: tuple[int, ...],
) -> None:
    """Check that a fault model and a selection of elements suit a tensor.

    Args:
        name: Name of the fault model.
        parameters: Its parameters.
        elements: Which elements.
        dtype: Name of the tensor's dtype.
        shape: Its shape.

    Raises:
        FaultError: They do not; says what would be valid.
    """
    model = get(name)
    parameters = check(name, parameters)
    layout = format_of(dtype)
    if model.refuse is not None:
        reason = model.refuse(model.with_defaults(parameters), layout, tuple(shape))
        if reason:
            raise FaultError(f"{name}: {reason}")
    selections.check_fit(elements, dtype, tuple(shape))


def corrupt(
    tensor: torch.Tensor,
    name: str,
    parameters: Mapping[str, Any],
    elements: Elements,
    generator: torch.Generator,
    context: Context | None = None,
) -> Corruption:
    """What a fault does to a tensor; the tensor itself is read only.

    Args:
        tensor: The tensor that is struck.
        name: Name of the fault model.
        parameters: Its parameters.
        elements: Which elements.
        generator: The fault's own generator; draws come from nowhere else.
        context: What a call model needs.

    Returns:
        What to write where, and what stood there; the tensor is as it was.

    Raises:
        FaultError: The fault cannot strike this tensor; says why.
    """
    model = get(name)
    _refuse(tensor, name)
    check_tensor(name, parameters, elements, dtype_name(tensor.dtype), tuple(tensor.shape))
    with torch.no_grad():
        indices = selections.choose(elements, tensor, generator)
        before = take(tensor, indices)
        given = replace(
            context or Context(), tensor=tensor.detach(), indices=indices, generator=generator
        )
        after = _computed(model, before, given, parameters)
    return Corruption(indices, before, after)


def draws(
    name: str,
    parameters: Mapping[str, Any],
    elements: Elements,
    dtype: str,
    shape: tuple[int, ...],
) -> bool:
    """Whether a fault takes random numbers, so that it is another with another seed.

    Args:
        name: Name of the fault model.
        parameters: Its parameters.
        elements: Which elements.
        dtype: Name of the dtype that it strikes.
        shape: Shape of the tensor that it strikes.

    Returns:
        Whether its generator is in another state afterwards; a call model draws nothing.
    """
    tensor = torch.zeros(shape, dtype=getattr(torch, dtype), device="cpu")
    generator = generator_of(0)
    before = generator.get_state()
    with suppress(FaultError):  # a call model needs more than a tensor
        corrupt(tensor, name, parameters, elements, generator)
    return not torch.equal(before, generator.get_state())


def _refuse(tensor: torch.Tensor, name: str) -> None:
    reason = refusal(tensor)
    if reason:
        raise FaultError(f"{name} cannot strike this tensor: {reason}")


def _computed(
    model: FaultModel, before: torch.Tensor, context: Context, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The values after, of the same shape, dtype and device."""
    if model.function is None:
        raise FaultError(f"{model.name} is a {model.group} fault; it strikes a whole call")
    values = before.clone() if model.group == OWN else before  # it may write in place
    after = model.function(values, context, **model.with_defaults(parameters))
    if not isinstance(after, torch.Tensor) or after.shape != before.shape:
        given = tuple(after.shape) if isinstance(after, torch.Tensor) else type(after).__name__
        raise FaultError(
            f"fault model {model.name!r} returned {given}; expected a tensor of shape "
            f"{tuple(before.shape)}, as the values it was given"
        )
    if after.dtype != before.dtype:
        raise FaultError(
            f"fault model {model.name!r} returned {dtype_name(after.dtype)}; expected "
            f"{dtype_name(before.dtype)}: return values.to(dtype) of what it was given"
        )
    return after.detach().to(before.device)


def apply(
    tensor: torch.Tensor,
    name: str,
    /,
    elements: Elements = "all",
    seed: int = 0,
    **parameters: Any,
) -> torch.Tensor:
    """A copy of a tensor with a fault in it; the tensor itself stays as it is.

    Args:
        tensor: Any dense tensor.
        name: Name of a value model, such as ``bitflip``.
        elements: Which elements.
        seed: Seed of the draws.
        **parameters: Parameters of the fault model.

    Returns:
        A new tensor of the same dtype, device and strides, outside any autograd graph.

    Raises:
        FaultError: The model is a call model, or cannot strike this tensor, or it is none.
    """
    if not isinstance(tensor, torch.Tensor):
        raise FaultError(
            f"cannot strike a {type(tensor).__name__}; expected a tensor, as torch.tensor(…) makes"
        )
    model = get(name)
    if model.kind != "value":
        raise FaultError(
            f"{name} is a call model (it needs {', '.join(model.needs)}), apply takes value "
            "models only; arm it in a session or a plan"
        )
    _refuse(tensor, name)
    chosen = corrupt(tensor, name, parameters, elements, generator_of(seed, device=tensor.device))
    return chosen.corrupted_copy(tensor)
