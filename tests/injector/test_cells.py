"""Lines of notebook cells are chosen as ``In [5][3]``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "cells.py"


CHOSEN = {
    "In [2][2]": ["addmm*1:0 In [2]:2"],
    "In [2][3]": ["addmm*2:0 In [2]:3"],
    "In[2][3]": ["addmm*2:0 In [2]:3"],
    "In [3][2]": ["addmm*1:0 In [2]:2", "addmm*2:0 In [2]:3"],
    "In [2]": ["addmm*1:0 In [2]:2", "addmm*2:0 In [2]:3"],
    "In [1]": [],
}


def test_a_line_of_a_cell_is_chosen(tmp_path: Path) -> None:
    """Any frame counts: the cell that defines the function, and the one that calls it."""
    faults = [
        {"id": code, "target": "addmm", "model": "light", "code": [code], "micro_batches": "0-"}
        for code in CHOSEN
    ]
    plan = {"version": 2, "faults": faults, "verbosity": "quiet"}
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(plan)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env=os.environ | settings,
    )
    struck = [line for line in done.stdout.splitlines() if line.startswith("STRUCK")]
    for code, expected in CHOSEN.items():
        mark = f"STRUCK {code} addmm"
        assert [line[len(mark) - 5 :] for line in struck if line.startswith(mark)] == expected, code
