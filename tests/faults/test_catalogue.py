"""The page of fault models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from fi_notebook import faults
from fi_notebook.faults.catalogue import catalogue, effect

PAGE = Path(__file__).parents[2] / "docs" / "fault_models.md"


def test_the_page_is_up_to_date() -> None:
    """Write it anew by ``python -m fi_notebook.faults.catalogue docs/fault_models.md``."""
    assert PAGE.read_text(encoding="utf-8") == catalogue()


def test_the_page_shows_every_model_and_selection() -> None:
    """Each under its own heading or in the table."""
    page = catalogue()
    assert all(f"### {name}\n" in page for name in faults.names())
    assert all(f"| {selection.name} |" in page for selection in faults.selections())


def test_an_effect_is_computed() -> None:
    """Flipping the top exponent bit of the sample, in both dtypes."""
    flip = faults.get("bitflip")
    assert effect(flip, torch.float32) == "`[inf, -2.93874e-39, 2, 1.02085e+35]`"
    assert effect(flip, torch.bfloat16).endswith("with `bitflip(bit=14)`")


def test_the_page_is_written_by_one_command(tmp_path: Path) -> None:
    """As CI does it."""
    page = tmp_path / "page.md"
    command = [sys.executable, "-m", "fi_notebook.faults.catalogue", str(page)]
    subprocess.run(command, check=True, cwd=PAGE.parents[1])
    assert page.read_text(encoding="utf-8") == catalogue()
