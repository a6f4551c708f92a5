"""A training script and a plan for it, as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SCRIPT = """
import sys
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(4, 3)).sum().backward()
    opt.step()
    opt.zero_grad()
print("arguments:", sys.argv[1:])
"""
PLAN = {
    "version": 2,
    "faults": [
        {"id": "gain", "target": "addmm", "model": "heavy", "steps": "1-2"},
        {"id": "never", "target": "relu*9", "model": "zero"},
    ],
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A plan and a training script."""
    (tmp_path / "injector.json").write_text(json.dumps(PLAN))
    (tmp_path / "train.py").write_text(SCRIPT)
    return str(tmp_path / "injector.json"), str(tmp_path / "train.py")
