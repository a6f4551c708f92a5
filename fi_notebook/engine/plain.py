"""Which objects are plain state: attributes and nothing else, so that they can be put back.

    is_plain(scheduler)       # True: its attributes are all there is to it
    is_plain(open("log"))     # False: it speaks to the world outside
    is_restorable("cosine")   # False: nothing in it can change

Limits: an iterator, a file, a lock, a thread or a logger is never looked into, nor is an
object that holds one, a function's closure, or a data set (`torch.utils.data`).
"""

from __future__ import annotations

import sys
import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from fi_notebook.engine.generators import GENERATORS

__all__ = ["CONTAINERS", "attributes_of", "is_plain", "is_restorable", "slots_of"]

CONTAINERS = (OrderedDict, dict, list, set, deque)
"""Containers that are put back by content; of subclasses the first that fits."""

_STATE = (torch.Tensor, np.ndarray, nn.Module, Optimizer, *GENERATORS, *CONTAINERS)

_LANGUAGE = {"builtins", "abc", "typing", "collections", "types", "argparse", "dataclasses"}
_STRANGE = (sys.stdlib_module_names - _LANGUAGE) | {"numpy", "fi_notebook"}
_TRAINING = ("torch.nn.", "torch.optim.", "torch.amp.", "torch.cuda.amp.")
_OUTSIDE = {"_thread", "threading", "_io", "socket", "_socket", "queue", "_queue", "subprocess"}


def attributes_of(thing: Any) -> dict[str, Any] | None:
    """The dictionary of an object's own attributes, whatever its class makes of access."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def slots_of(kind: type) -> Iterator[types.MemberDescriptorType]:
    """The slots that a class and its bases declare in Python."""
    for base in kind.__mro__:
        if "__slots__" in vars(base):
            for member in vars(base).values():
                if isinstance(member, types.MemberDescriptorType):
                    yield member


def is_plain(thing: Any) -> bool:
    """Whether an object that is met inside another is looked into."""
    if not _is_plain_kind(type(thing), inside=True):
        return False
    values = (attributes_of(thing) or {}).values()
    return all(_package(type(value)) not in _OUTSIDE for value in values)


def is_restorable(thing: Any) -> bool:
    """Whether an object that is given as state can be put back.

    What is given is looked into where what is met inside would not be: a sampler, say.
    """
    if isinstance(thing, tuple):
        return bool(thing) and all(map(is_restorable, thing))
    kind = type(thing)
    both = hasattr(kind, "state_dict") and hasattr(kind, "load_state_dict")
    return isinstance(thing, _STATE) or both or _is_plain_kind(kind, inside=False)


def _is_plain_kind(kind: type, *, inside: bool) -> bool:
    if kind.__module__ == "builtins" or issubclass(kind, (type, types.ModuleType, BaseException)):
        return False
    if any(_is_strange(base, inside=inside) for base in kind.__mro__):
        return False
    return kind.__dictoffset__ != 0 or any(True for _ in slots_of(kind))


def _is_strange(kind: type, *, inside: bool) -> bool:
    """Whether a class, or a base of one, is of a library that keeps state elsewhere."""
    if _package(kind) != "torch":
        return _package(kind) in _STRANGE
    if inside:
        return not f"{kind.__module__}.".startswith(_TRAINING)
    return hasattr(kind, "__next__")


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]
