"""Injectors of others, each as one function: the scores after one bit was flipped.

    scores = hooked()
    scores("conv1", 5, 30)      bit 30 of element 5 of what conv1 gives

`hooked` is a forward hook and needs nothing of ours; PyTorchFI and MRFI must be installed
(``pip install --no-deps pytorchfi==0.6.0 mrfi==2.1.0``).
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fi_notebook.demo import Demo, make_demo

__all__ = ["LAYERS", "Scores", "flipped", "hooked", "mrfi", "pytorchfi"]

LAYERS = {"other/convolution*1:0": "conv1", "other/convolution*2:0": "conv2"}
"""The sites that all of them can strike, and the modules that give them."""

Scores = Callable[[str, int, int], Tensor]
"""The scores after, of a layer's output, an element (the second) lost a bit (the third)."""


def _demo() -> tuple[Demo, nn.Module]:
    demo = make_demo()
    return demo, demo.model.eval()


def flipped(value: float, bit: int) -> float:
    """A float32 with one bit flipped, by way of its bytes."""
    (pattern,) = struct.unpack("<I", struct.pack("<f", value))
    (after,) = struct.unpack("<f", struct.pack("<I", pattern ^ (1 << bit)))
    return float(after)


def hooked() -> Scores:
    """The plainest injector: a forward hook that sets one element."""
    demo, model = _demo()

    @contextmanager
    def struck(layer: str, element: int, bit: int) -> Iterator[None]:
        def strike(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
            flat = output.clone().view(-1)
            flat.view(torch.int32)[element] ^= (1 << bit) if bit < 31 else -(1 << 31)
            return flat.view(output.shape)

        handle = model.get_submodule(layer).register_forward_hook(strike)
        try:
            yield
        finally:
            handle.remove()

    def scores(layer: str, element: int, bit: int) -> Tensor:
        with torch.no_grad(), struck(layer, element, bit):
            found: Tensor = model(demo.images)
        return found

    return scores


def pytorchfi() -> Scores:
    """PyTorchFI, which sets an element to a value.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    core: Any = importlib.import_module("pytorchfi.core")
    demo, model = _demo()
    shape = list(demo.images.shape)
    injector = core.fault_injection(model, shape[0], shape[1:], [nn.Conv2d])
    kept: dict[str, Tensor] = {}
    for name in LAYERS.values():
        model.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, name=name: kept.update({name: output.clone()})
        )
    with torch.no_grad():
        model(demo.images)
    golden = dict(kept)

    def scores(layer: str, element: int, bit: int) -> Tensor:
        where = torch.unravel_index(torch.tensor(element), golden[layer].shape)
        place = {f"dim{n}": [int(at)] for n, at in enumerate(where)}
        struck = injector.declare_neuron_fi(
            batch=place.pop("dim0"),
            layer_num=[[*LAYERS.values()].index(layer)],
            value=[flipped(golden[layer].view(-1)[element].item(), bit)],
            **place,
        )
        with torch.no_grad():
            found: Tensor = struck(demo.images)
        return found

    return scores


def mrfi() -> Scores:
    """MRFI, which flips a bit of a position.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    tool: Any = importlib.import_module("mrfi.mrfi")
    for room in ("selector", "error_mode"):
        tool.load_package_functions(f"mrfi.{room}")
    demo, model = _demo()
    fault = {
        "type": "activation_out",
        "enabled": False,
        "selector": {"method": "FixPosition", "position": 0},
        "error_mode": {"method": "FloatFixedBitFlip", "bit": 0},
        "module_fullname": [*LAYERS.values()],
    }
    injector = tool.MRFI(model, tool.EasyConfig({"faultinject": [fault]}))

    def scores(layer: str, element: int, bit: int) -> Tensor:
        for name in LAYERS.values():
            module: Any = model.get_submodule(name)
            config = module.FI_config.activation_out[0]
            config.enabled = name == layer
            config.selector.args.position = element
            config.error_mode.args.bit = bit
        found: Tensor = injector(demo.images)
        return found

    return scores
