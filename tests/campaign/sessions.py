"""Sessions that campaigns of the tests are on; worker processes import this file."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fi_notebook.demo import make_demo
from fi_notebook.session import Session


def quickstart() -> Session:
    """The demonstration: a small CNN on digits, one AdamW step."""
    demo = make_demo()
    return Session(demo.step, model=demo.model, optimizer=demo.optimizer)


def inference() -> Session:
    """The demonstration's model in inference: its scores, and no loss."""
    demo = make_demo()
    demo.model.eval()

    def step() -> Tensor:
        with torch.no_grad():
            scores: Tensor = demo.model(demo.images)
        return scores

    return Session(step, model=demo.model)
