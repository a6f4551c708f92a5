"""A transformer as people train it: autocast, checkpointing, accumulation, 20 steps."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from fi_notebook import Injector
from tests import models

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="transformers needs Python 3.11 or later"
)

STEPS, FEW, ACCUMULATED, LAYERS = 20, 4, 4, 2
LISTED = [3, 7, 12, 13, 14]


def _model() -> Any:
    """A Llama of two layers, made from a config, that checkpoints its layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=37,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        use_cache=False,
    )
    with models.seeded(0):
        model = LlamaForCausalLM(config)
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def _train(config: dict[str, Any] | None, steps: int) -> tuple[list[float], Injector | None, Any]:
    """Train on seeded tokens; gives the losses of the last micro batches."""
    model, losses = _model(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    injector = None if config is None else Injector(config, model=model)
    for _ in range(steps):
        loss = torch.zeros(())
        for _ in range(ACCUMULATED):
            tokens = torch.randint(37, (2, 8), generator=generator)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens).loss / ACCUMULATED
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if injector is not None:
        injector.close()
    return losses, injector, model


@pytest.fixture(scope="module")
def clean() -> tuple[list[float], list[Tensor]]:
    """Losses and parameters of a few steps that nobody looked at."""
    losses, _, model = _train(None, FEW)
    return losses, [parameter.detach() for parameter in model.parameters()]


def _plan(*faults: dict[str, Any]) -> dict[str, Any]:
    return {"version": 2, "verbosity": "quiet", "faults": list(faults)}


def test_exactly_the_listed_steps_fire(clean: tuple[list[float], list[Tensor]]) -> None:
    """Two faults in steps 3, 7, 12 to 14 of 20: these fire, and no other step is touched.

    ``every`` strikes silu in layer 1 in the forward of each of the 4 micro batches. ``one``
    strikes a single call: silu is called 2 layers x 2 (forward, recompute) times in a micro
    batch, so number 9 is the first of the third, in layer 0.
    """
    every = {
        "id": "every",
        "target": "silu",
        "model": "bitflip",
        "parameters": {"field": "exponent"},
        "elements": {"count": 1},
        "modules": ["model.layers.1.mlp"],
        "phases": ["forward"],
        "steps": "3,7,12-14",
    }
    one = {"id": "one", "target": "silu*9:0", "model": "zero", "steps": LISTED}
    losses, injector, _ = _train(_plan(every, one), STEPS)
    assert injector is not None
    assert injector.step == STEPS - 1
    fired = Counter((i.fault, i.step) for i in injector.injections)
    assert fired == {("every", s): 4 for s in LISTED} | {("one", s): 1 for s in LISTED}
    assert {(i.site.dtype, i.site.phase) for i in injector.injections} == {("bfloat16", "forward")}
    modules = {(i.fault, i.site.module) for i in injector.injections}
    assert modules == {
        ("every", "model.layers.1.mlp.act_fn"),
        ("one", "model.layers.0.mlp.act_fn"),
    }
    assert losses[:3] == clean[0][:3]
    assert losses[3] != clean[0][3]
    assert not injector.not_injected


def test_the_recompute_of_a_checkpoint(clean: tuple[list[float], list[Tensor]]) -> None:
    """In the last step the recompute alone is struck: the loss is bit-equal, the update not."""
    fault = {
        "target": "silu",
        "model": "zero",
        "phases": ["recompute"],
        "steps": [FEW - 1],
        "micro_batches": [ACCUMULATED - 1],
    }
    losses, injector, model = _train(_plan(fault), FEW)
    assert injector is not None
    assert [i.site.phase for i in injector.injections] == ["recompute"] * LAYERS
    assert losses == clean[0]
    pairs = zip(model.parameters(), clean[1], strict=True)
    assert not all(torch.equal(one, other) for one, other in pairs)


def test_nothing_that_fires_is_bit_equal(clean: tuple[list[float], list[Tensor]]) -> None:
    """Every call is looked at in two steps, none is struck: the same bits in the end."""
    config = _plan({"target": "silu", "model": "zero", "probability": 0, "steps": [1, 3]})
    losses, _, model = _train(config | {"modules": [""], "log_steps": [1, 3]}, FEW)
    assert losses == clean[0]
    pairs = zip(model.parameters(), clean[1], strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
