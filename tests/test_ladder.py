"""The rungs below the widget: real nbclient, nbconvert, IPython and scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter

from tests.tools import notebooks

ROOT = Path(__file__).parents[1]

SETUP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import fi_notebook as fi
from tests import models

case = models.mlp(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
trace = session.trace()
"""
EXPLORE = """
display(session.explore())
session.arm("relu*1:0", "set", value=float("nan"))
run = session.replay()
"""
WATCH = """
watch = fi.watch(case.model, ["relu*1:0", "grad:0.weight"])
display(watch)
for _ in range(12):
    case.step()
"""
LATER = "for _ in range(3): case.step()"
CLOSE = "watch.close(); fi.doctor()"

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A notebook that explores and watches, run by nbclient."""
    folder = tmp_path_factory.mktemp("ladder")
    path = notebooks.write(folder / "n.ipynb", SETUP, EXPLORE, WATCH, LATER, CLOSE)
    return notebooks.run(path)


def html(cell: Any) -> str:
    """What a cell shows as HTML."""
    return "\n".join(
        "".join(output.data.get("text/html", "")) for output in cell.outputs if "data" in output
    )


class TestNbclient:
    """A notebook that is run where no page looks."""

    def test_doctor_says_so(self, ran: Any) -> None:
        """The rung, and why."""
        said = notebooks.text(ran.cells[4])
        assert "in nbclient or nbconvert: HTML progress and static result" in said
        assert "no page is known to look at this kernel" in said

    def test_the_explorer_is_a_static_result(self, ran: Any) -> None:
        """Tree and, though it was replayed after it was shown, plan and outcome."""
        (output,) = ran.cells[1].outputs
        assert set(output.data) == {"text/html", "text/plain"}
        page = html(ran.cells[1])
        assert "Static result of fi_notebook: run the cell again for the live view." in page
        assert "nan immediate" in page
        assert "relu*1:0" in page
        assert "<summary>" in page

    def test_the_watch_has_the_last_step(self, ran: Any) -> None:
        """Steps of a later cell too: 12 + 3 of them, the last one is step 14."""
        (output,) = ran.cells[2].outputs
        assert set(output.data) == {"text/html", "text/plain"}
        assert "training: up to step 14" in html(ran.cells[2])
        assert "training: 2 sites, up to step 14; norm" in notebooks.text(ran.cells[2])

    def test_no_widget_is_left_in_the_file(self, ran: Any) -> None:
        """The watch makes none here: its library alone would be megabytes."""
        assert "_deflated" not in nbformat.writes(ran)


class TestNbconvert:
    """The page that nbconvert makes of it."""

    def test_it_shows_tree_plan_and_result(self, ran: Any) -> None:
        """The explorer's snapshot and the watch's table."""
        page, _ = HTMLExporter().from_notebook_node(ran)
        for text in ("nan immediate", "relu*1:0", "up to step 14", "<polyline", "set(value=nan)"):
            assert text in page

    def test_it_runs_what_it_is_given(self, tmp_path: Path) -> None:
        """``nbconvert --execute`` itself, as a command."""
        path = notebooks.write(tmp_path / "n.ipynb", SETUP, WATCH)
        command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", str(path)]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
        assert "training: up to step 11" in (tmp_path / "n.html").read_text("utf-8")


@cache
def said_in_ipython(lines: str) -> str:
    """What a real IPython in a terminal prints for these lines."""
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", lines]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout


class TestPlainIPython:
    """IPython in a terminal."""

    def test_everything_is_text(self) -> None:
        """The explorer, the watch and doctor print themselves; no object's address is shown."""
        said = said_in_ipython(SETUP + EXPLORE + WATCH + "display(watch, fi.doctor())")
        assert "fi_notebook explorer" in said
        assert "training: 2 sites, up to step 11; norm" in said
        assert "in plain IPython: text" in said
        assert "open a notebook in JupyterLab" in said
        assert "object at 0x" not in said


class TestScript:
    """A script without IPython."""

    def test_a_watch_records_without_any_screen(self) -> None:
        """Table, text and figure; nothing of a widget, IPython or plotly is loaded meanwhile."""
        loop = WATCH.replace("display(watch)", "")
        heavy = ("anywidget", "ipywidgets", "IPython", "plotly")
        code = f"""{SETUP}{loop}
loaded = sorted(set({heavy!r}) & set(sys.modules))
import json
print(json.dumps([loaded, len(watch.to_pandas()), len(watch.figure().data), str(fi.doctor())]))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
        )
        loaded, rows, traces, doctor = json.loads(done.stdout)
        assert loaded == []
        assert rows == 2 * 12
        assert traces == 2 * 3
        assert "in a script: text" in doctor
