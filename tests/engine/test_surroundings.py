"""Settings of torch are put back, those of a thread in any thread."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fi_notebook.engine.surroundings import Surroundings

deterministic: Any = torch.utils.deterministic
backends: Any = torch.backends

CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(mode=True, warn_only=True),
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
    ),
    "fill": (
        lambda: setattr(deterministic, "fill_uninitialized_memory", False),
        lambda: deterministic.fill_uninitialized_memory,
    ),
    "cudnn": (
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: torch.backends.cudnn.benchmark,
    ),
    "matmul": (
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: (
            torch.get_float32_matmul_precision(),
            backends.cuda.matmul.fp32_precision,
            backends.mkldnn.matmul.fp32_precision,
        ),
    ),
    "device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "anomaly": (
        lambda: torch.autograd.set_detect_anomaly(mode=True, check_nan=False),
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    ),
    "autocast": (
        lambda: torch.set_autocast_enabled("cpu", True),
        lambda: torch.is_autocast_enabled("cpu"),
    ),
    "autocast dtype": (
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.get_autocast_dtype("cpu"),
    ),
    "autocast of xpu": (
        lambda: torch.set_autocast_enabled("xpu", True),
        lambda: torch.is_autocast_enabled("xpu"),
    ),
    "autocast dtype of mps": (
        lambda: torch.set_autocast_dtype("mps", torch.bfloat16),
        lambda: torch.get_autocast_dtype("mps"),
    ),
    "grad mode": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "threads": (
        lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        torch.get_num_threads,
    ),
    "attention": (
        lambda: torch.backends.cuda.enable_math_sdp(False),
        torch.backends.cuda.math_sdp_enabled,
    ),
    "numpy": (lambda: np.seterr(over="ignore", divide="raise"), np.geterr),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_is_put_back(name: str) -> None:
    """What the change changed reads as before once it is restored, and is left alone then."""
    change, look = CHANGES[name]
    before = look()
    surroundings = Surroundings.take()
    try:
        change()
        assert look() != before
    finally:
        surroundings.restore()
    assert look() == before
    assert Surroundings.take().values == surroundings.values


def test_another_thread_has_them_for_a_block() -> None:
    """Default device, grad mode and autocast of this thread, and its own ones afterwards."""

    def look() -> tuple[Any, ...]:
        return (
            torch.get_default_device().type,
            torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
        )

    seen = []

    def elsewhere() -> None:
        seen.append(look())
        with surroundings.around():
            seen.append(look())
        seen.append(look())

    with torch.no_grad(), torch.device("meta"), torch.autocast("cpu", torch.float16):
        surroundings = Surroundings.of_thread()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    own = ("cpu", True, False, torch.bfloat16)
    assert seen == [own, ("meta", False, True, torch.float16), own]


def test_reading_and_writing_say_nothing() -> None:
    """Neither warns, though torch has deprecated names for some settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Surroundings.take().restore()
