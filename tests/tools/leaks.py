"""What a test may leave behind: nothing. The state that the leak fixture compares.

    before = leaks.state()
    …
    leaks.assert_clean(before)      # AssertionError: left behind: dispatch modes: [TracingMode]

Limits: what only exists once torch is loaded is not looked at before that.
"""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["RandomState", "assert_clean", "state"]

_JOIN_S = 5.0
"""How long a thread that is just ending may take to do so."""

_THREADS_OF_OTHERS = (
    "inductor",
    "compile_worker",
    "tqdm_monitor",
    "asyncio",
    "pytest_timeout",
    "IOPub",
    "Control",
)
"""Parts of the names of threads that torch, asyncio and ipykernel start once and keep."""

_HOOK_TABLES = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
    "_global_buffer_registration_hooks",
)
_OPTIMIZER_TABLES = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


def state() -> dict[str, Any]:
    """Everything global that the package could leave changed, by plain names."""
    logger = logging.getLogger("fi_notebook")
    found: dict[str, Any] = {
        "handlers of our logger": list(logger.handlers),
        "level of our logger": logger.level,
        "working directory": Path.cwd(),
        "SIGINT handler": signal.getsignal(signal.SIGINT),
        "trace function": sys.gettrace(),
    }
    if "torch" in sys.modules:
        found |= _torch_state() | _patch_points()
    return found


def _torch_state() -> dict[str, Any]:
    import torch
    from torch.nn.modules import module
    from torch.optim import optimizer
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    hooks = {
        f"hooks of {table}": list(getattr(place, table))
        for place, tables in ((module, _HOOK_TABLES), (optimizer, _OPTIMIZER_TABLES))
        for table in tables
    }
    return hooks | {
        "dispatch modes": list(_get_current_dispatch_mode_stack()),
        "function modes": list(_get_current_function_mode_stack()),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default dtype": torch.get_default_dtype(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "current autograd node": torch._C._current_autograd_node(),
        "compile stance": _stance(),
    }


def _stance() -> Any:
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    return "default" if eval_frame is None else eval_frame._stance.stance


def _patch_points() -> dict[str, Any]:
    import torch
    from torch.utils import checkpoint

    places = {
        torch.nn.Module: ("__call__", "_call_impl", "forward", "train", "eval", "zero_grad"),
        torch.optim.Optimizer: ("zero_grad", "state_dict", "load_state_dict"),
        torch.Tensor: ("backward", "__torch_function__"),
        torch.autograd: ("backward", "grad"),
        checkpoint: ("checkpoint",),
    }
    return {
        f"patched {getattr(place, '__name__', place)}.{name}": getattr(place, name)
        for place, names in places.items()
        for name in names
    }


def assert_clean(before: dict[str, Any], threads: set[threading.Thread] | None = None) -> None:
    """Fail, naming everything that is no longer as it was.

    Args:
        before: What `state` gave earlier.
        threads: The threads that ran then; None does not look at threads.

    Raises:
        AssertionError: Something was left behind.
    """
    after = state()
    left = [f"{k}: {v!r} → {after[k]!r}" for k, v in before.items() if not _same(v, after[k])]
    left += [
        f"{k}: {v!r}" for k, v in after.items() if k not in before and v and k.startswith("hooks")
    ]
    if threads is not None:
        left += [f"thread: {thread.name}" for thread in _new_threads(threads)]
    assert not left, "left behind: " + "; ".join(left)


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _new_threads(known: set[threading.Thread]) -> list[threading.Thread]:
    known = known | _compiling()
    started = [
        thread
        for thread in threading.enumerate()
        if thread not in known and not any(part in thread.name for part in _THREADS_OF_OTHERS)
    ]
    for thread in started:
        thread.join(_JOIN_S)
    return [thread for thread in started if thread.is_alive()]


def _compiling() -> set[threading.Thread]:
    """The threads in which torch compiles, which it starts once and keeps."""
    compiling = sys.modules.get("torch._inductor.async_compile")
    return set() if compiling is None else compiling.AsyncCompile.pool()._threads


class RandomState:
    """The state of Python's, numpy's and (once it is loaded) torch's generators."""

    def __init__(self) -> None:
        """Read the three states."""
        self.python = random.getstate()
        self.numpy = np.random.get_state()  # noqa: NPY002  (the global generator is the subject)
        self.torch = sys.modules["torch"].get_rng_state() if "torch" in sys.modules else None

    def restore(self) -> None:
        """Put the three states back."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002
        if self.torch is not None:
            sys.modules["torch"].set_rng_state(self.torch)

    def changed(self) -> list[str]:
        """Names of the generators that have been drawn from, or seeded, since."""
        now = RandomState()
        pairs = {
            "python": self.python == now.python,
            "numpy": all(np.array_equal(a, b) for a, b in zip(self.numpy, now.numpy, strict=True)),
            "torch": self.torch is None or bool((self.torch == now.torch).all()),
        }
        return [name for name, same in pairs.items() if not same]
