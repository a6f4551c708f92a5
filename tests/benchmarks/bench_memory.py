"""Peak memory of a trace and a replay over that of a plain step, at several budgets.

    python -m tests.benchmarks.bench_memory [MiB …]

    budget      kept        whole sampled hashed  state     trace peak  replay peak
    16 MiB      16.0 MiB      812     103      0  75.1 MiB  …

The model is shaped like GPT-2: 6 layers, 256 wide, 4 heads, AdamW, 8 sequences of 128
tokens. Each budget runs in a process of its own; peaks are of resident memory
(``ru_maxrss``), over the peak of two plain steps in the same process, after a trace of a
tiny model has loaded what tracing loads. Large blocks go straight back to the system
(``MALLOC_MMAP_THRESHOLD_``), so that the peak is of what lives and not of fragments.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import fi_notebook as fi

_MIB = 1 << 20


class Block(nn.Module):
    """Attention and a feed-forward part, both after a LayerNorm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (
            p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts
        )
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        seen = torch.ones(length, length, dtype=torch.bool).tril()
        mixed = scores.masked_fill(~seen, float("-inf")).softmax(3) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """GPT-2 in small, with tied embeddings."""

    def __init__(self, layers: int = 6, width: int = 256, vocabulary: int = 1024) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.norm(self.blocks(x)) @ self.tokens.weight.t()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _warm_up() -> None:
    """Load what a first trace loads."""
    model = nn.Linear(2, 2)
    session = fi.Session(lambda: model(torch.ones(1, 2)).sum().backward(), model=model)
    session.trace()
    session.arm("addmm*1:0", "scale", factor=2.0)
    session.replay()


def measure(budget: int) -> dict[str, float]:
    """Peaks of one process, in bytes over the plain step's."""
    _warm_up()
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(1024, (8, 129))

    def step() -> Tensor:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(), step()
    plain = _peak()
    session = fi.Session(step, model=model, optimizer=optimizer, memory=budget)
    trace = session.trace()
    traced = _peak() - plain
    session.arm("gelu*3:0", "bitflip", bit=25, elements={"index": 7})
    run = session.replay()
    differing = len(run.comparison.diverged)
    return {
        **{name: trace.info["memory"][name] for name in ("used", "whole", "sampled", "hashed")},
        "always": run.memory["always"],
        "state": trace.info["memory"]["state"],
        "parameters": sum(p.numel() * 4 for p in model.parameters()),
        "plain": plain,
        "trace": traced,
        "replay": _peak() - plain,
        "differing": differing,
        "calls": trace.call_count,
    }


def main(budgets: list[int]) -> None:
    """Print the table."""
    print(
        f"{'budget':>9} {'kept':>10} {'whole':>6} {'sampled':>7} {'hashed':>6} {'state':>10} "
        f"{'trace peak':>11} {'replay peak':>11} {'differing':>9}"
    )
    about = ""
    for budget in budgets:
        command = [sys.executable, "-m", "tests.benchmarks.bench_memory", "--one", str(budget)]
        root = Path(__file__).parents[2]
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=root, env=environment
        )
        found = json.loads(answer.stdout)
        sizes = {name: f"{value / _MIB:.1f} MiB" for name, value in found.items()}
        print(
            f"{budget:5d} MiB {sizes['used']:>10} {found['whole']:6d} {found['sampled']:7d} "
            f"{found['hashed']:6d} {sizes['state']:>10} {sizes['trace']:>11} "
            f"{sizes['replay']:>11} {found['differing']:9d}",
            flush=True,
        )
        about = f"plain step {sizes['plain']}, parameters {sizes['parameters']}"
    print(about)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]) * _MIB)))
    else:
        main([int(text) for text in sys.argv[1:]] or [64, 256, 1024])
