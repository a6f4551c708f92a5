"""The fixtures that every test stands on do catch what they are there for."""

from __future__ import annotations

import logging
import random
import socket
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.tools import leaks


def test_a_left_module_hook_is_named() -> None:
    """A global forward hook that stays registered fails the leak check by name."""
    before = leaks.state()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        with pytest.raises(AssertionError, match="_global_forward_hooks"):
            leaks.assert_clean(before)
    finally:
        handle.remove()
    leaks.assert_clean(before)


def test_a_left_mode_is_named() -> None:
    """A dispatch mode that is still entered fails the leak check."""
    before = leaks.state()
    with TorchDispatchMode(), pytest.raises(AssertionError, match="dispatch modes"):
        leaks.assert_clean(before)


def test_a_left_thread_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that runs on after the test fails the leak check."""
    monkeypatch.setattr(leaks, "_JOIN_S", 0.01)
    release, threads = threading.Event(), set(threading.enumerate())
    thread = threading.Thread(target=release.wait, name="left over")
    thread.start()
    try:
        with pytest.raises(AssertionError, match="thread: left over"):
            leaks.assert_clean(leaks.state(), threads)
    finally:
        release.set()
        thread.join()


def test_a_patched_method_and_a_handler_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patched Module.zero_grad and a handler on our logger fail the leak check."""
    before = leaks.state()
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Module, "zero_grad", lambda self: None)
        patch.setattr(logging.getLogger("fi_notebook"), "handlers", [logging.NullHandler()])
        with pytest.raises(AssertionError, match=r"handlers of our logger.*Module.zero_grad"):
            leaks.assert_clean(before)


def test_drawing_from_a_global_generator_is_noticed() -> None:
    """One draw from torch's and from Python's generator is noticed; restoring undoes both."""
    before = leaks.RandomState()
    torch.rand(1)
    random.random()
    assert before.changed() == ["python", "torch"]
    before.restore()
    assert before.changed() == []


@pytest.mark.draws_nothing
def test_the_global_generators_start_alike() -> None:
    """Every test starts from the same seed."""
    assert torch.initial_seed() == 20260


def test_the_network_is_closed() -> None:
    """Neither a name nor an address beyond loopback can be reached."""
    with pytest.raises(PermissionError, match="loopback only"):
        socket.getaddrinfo("example.org", 80)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
        pytest.raises(PermissionError, match="loopback only"),
    ):
        other.connect(("192.0.2.1", 9))
