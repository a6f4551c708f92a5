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


def test_a_second_update_adds_what_the_first_did() -> None:
    """0.5 became 1 by one update of 0.5, so two make 1.5; skipped, it stays 0.5."""
    twice, skipped = (faults.get(name) for name in ("duplicate", "skip_update"))
    assert effect(twice, torch.float32) == "`[1.5, -4, -0.25, 0.0004]`"
    assert effect(skipped, torch.float32) == "`[0.5, -1, 0.25, 0.0002]`"


def test_swapped_rows_are_shown_on_a_matrix() -> None:
    """[[1, -2.5], [0, 3e-4]] with its rows swapped; the sample as it stands has one row."""
    swapped = effect(faults.get("swap_rows"), torch.float32)
    assert swapped == "`[0, 0.0003, 1, -2.5]` of the sample as 2 × 2"


def test_the_page_is_written_by_one_command(tmp_path: Path) -> None:
    """As CI does it."""
    page = tmp_path / "page.md"
    command = [sys.executable, "-m", "fi_notebook.faults.catalogue", str(page)]
    subprocess.run(command, check=True, cwd=PAGE.parents[1])
    assert page.read_text(encoding="utf-8") == catalogue()
