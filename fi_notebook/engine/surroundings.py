"""The settings of torch that a step may change, and that are put back around each run.

    before = Surroundings.take()
    …                                  # a step that calls torch.use_deterministic_algorithms
    before.restore()

Some belong to a thread (default device, grad mode, autocast): a run that another thread
starts, as the widget does, is given those of the thread that made the session.

Limits: inference mode, and a dispatch or function mode, are entered and left by a person
alone; what torch has no reader for (flushing of denormals) is not put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

__all__ = ["Surroundings"]

_UNKNOWN = object()


@dataclass(frozen=True)
class _Setting:
    """One setting: how it is read, and how it is written."""

    read: Callable[[], Any]
    write: Callable[[Any], object]

    def now(self) -> Any:
        """Its value; unknown where legacy and new names of it were mixed."""
        try:
            return self.read()
        except RuntimeError:
            return _UNKNOWN


def _flag(path: str) -> _Setting:
    """An attribute of torch, by its dotted path."""
    names = path.split(".")
    owner: Any = torch
    for name in names[:-1]:
        owner = getattr(owner, name)
    return _Setting(partial(getattr, owner, names[-1]), partial(setattr, owner, names[-1]))


def _autocast(device: str) -> tuple[_Setting, _Setting]:
    return (
        _Setting(
            partial(torch.is_autocast_enabled, device),
            partial(torch.set_autocast_enabled, device),
        ),
        _Setting(
            partial(torch.get_autocast_dtype, device),
            partial(torch.set_autocast_dtype, device),
        ),
    )


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device == torch.device("cpu") else device)


_OF_THREAD = (
    _Setting(torch.is_grad_enabled, torch.set_grad_enabled),
    _Setting(torch.get_default_device, _set_default_device),
    *(
        setting
        for device in torch._C._autocast_supported_devices()
        for setting in _autocast(device)
    ),
    _Setting(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    _Setting(np.geterr, lambda kinds: np.seterr(**kinds)),
)

_OF_PROCESS = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype),
    _Setting(torch.get_num_threads, torch.set_num_threads),
    _Setting(
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda now: torch.use_deterministic_algorithms(now[0], warn_only=now[1]),
    ),
    _Setting(
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda now: torch.autograd.set_detect_anomaly(*now),
    ),
    _Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    *map(
        _flag,
        (
            "utils.deterministic.fill_uninitialized_memory",
            "backends.fp32_precision",
            "backends.cuda.matmul.fp32_precision",
            "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
            "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
            "backends.cudnn.fp32_precision",
            "backends.cudnn.conv.fp32_precision",
            "backends.cudnn.rnn.fp32_precision",
            "backends.cudnn.enabled",
            "backends.cudnn.benchmark",
            "backends.cudnn.deterministic",
            "backends.mkldnn.fp32_precision",
            "backends.mkldnn.matmul.fp32_precision",
            "backends.mkldnn.conv.fp32_precision",
            "backends.mkldnn.rnn.fp32_precision",
            "backends.mkldnn.enabled",
        ),
    ),
    _Setting(torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    _Setting(torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    _Setting(torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    _Setting(
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
)


@dataclass(frozen=True)
class Surroundings:
    """What the settings were at one moment."""

    values: tuple[tuple[_Setting, Any], ...]

    @classmethod
    def take(cls) -> Surroundings:
        """Read every setting."""
        return cls(tuple((each, each.now()) for each in (*_OF_THREAD, *_OF_PROCESS)))

    @classmethod
    def of_thread(cls) -> Surroundings:
        """Read those that belong to this thread alone."""
        return cls(tuple((each, each.now()) for each in _OF_THREAD))

    def restore(self) -> None:
        """Write back each that is another now, in this thread."""
        for setting, value in self.values:
            if value is not _UNKNOWN and setting.now() != value:
                setting.write(value)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Have these for a block, and afterwards those of before."""
        before = Surroundings.of_thread()
        self.restore()
        try:
            yield
        finally:
            before.restore()
