"""Tensors whose storage claims bytes and has none: wrappers, fakes, implied zeros, meta."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys, torch, fi_notebook as fi
import torch.autograd.forward_ad as forward
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor
from torch.testing._internal.two_tensor import TwoTensor

kind, model, inputs = sys.argv[1], nn.Linear(4, 3), torch.randn(6, 4)
inner = torch.arange(3.0)
if kind == "jagged":
    parts = [torch.ones(3, 4), torch.ones(2, 4)]
    model.z = torch.nested.nested_tensor(parts, layout=torch.jagged)
    inner = model.z.values()
elif kind == "zeros":
    model.register_buffer("z", torch._efficientzerotensor((3,)))
elif kind == "meta":
    model.register_buffer("z", torch.empty(3, device="meta"))
elif kind == "masked":
    model.z = masked_tensor(inner, torch.tensor([True, False, True]))
    inner = model.z.get_data()
elif kind == "wrapper":
    model.register_buffer("z", TwoTensor(inner, inner.clone()))
if kind in ("zeros", "meta", "forward", "fake"):
    model.inner = inner
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)

def step():
    if kind == "forward":
        with forward.dual_level():
            dual = model(forward.make_dual(inputs, torch.ones_like(inputs)))
            value, tangent = forward.unpack_dual(dual)
            loss = value.pow(2).mean() + tangent.pow(2).mean()
    else:
        loss = model(inputs).pow(2).mean()
    if kind == "fake":
        with FakeTensorMode():
            torch.empty(3, 3) * 2
    inner.add_(1)
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    return loss.detach()

step()
held = inner.clone()
session = fi.Session(step, model=model, optimizer=optimizer)
session.trace()
session.arm("addmm*1:0", "zero")
print(len(session.replay().injections), torch.equal(inner, held))
"""


@pytest.mark.parametrize(
    "kind", ["jagged", "zeros", "meta", "masked", "wrapper", "forward", "fake"]
)
def test_a_tensor_without_memory_of_its_own_is_survived(kind: str) -> None:
    """The fault strikes once, and what the tensor wraps is put back; no crash."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stdout) == (0, "1 True\n"), done.stderr
