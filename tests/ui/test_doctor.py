"""Where this runs, which rung of the ladder that is, and what to install."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import fi_notebook as fi
from fi_notebook.ui import doctor
from fi_notebook.ui.doctor import FULL, NO_CONTROL, STATIC, TEXT

FOUND = {
    "fi_notebook": "0.1.0",
    "python": "3.11.7",
    **dict.fromkeys(("torch", "plotly", "ipython", "jupyterlab", "jupyterlab_widgets"), "9.0"),
    "anywidget": "0.11.0",
    "ipywidgets": "8.1.9",
    "ipykernel": "7.4.0",
}


def shell(metadata: dict[str, Any] | None = None, *, kernel: bool = True, **names: Any) -> Any:
    """An IPython shell; its last cell came with this metadata."""
    parent = {"metadata": metadata or {}}
    return SimpleNamespace(
        kernel=SimpleNamespace() if kernel else None, user_ns=names, get_parent=lambda: parent
    )


def judged(monkeypatch: pytest.MonkeyPatch, running: Any, **versions: str) -> Any:
    """The diagnosis for a shell and these versions."""
    for name in ("JPY_SESSION_NAME", "VSCODE_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "running_shell", lambda: running)
    monkeypatch.setattr(doctor, "_versions", lambda: FOUND | versions)
    return fi.doctor()


PAGE = {"cellId": "1"}


@pytest.mark.parametrize(
    ("running", "versions", "place", "rung"),
    [
        (None, {}, "a script", TEXT),
        (shell(kernel=False), {}, "plain IPython", TEXT),
        (shell(), {}, "nbclient or nbconvert", STATIC),
        (shell(PAGE), {}, "JupyterLab 4 or Notebook 7", FULL),
        (shell(PAGE), {"ipykernel": "6.31.0"}, "JupyterLab 4 or Notebook 7", NO_CONTROL),
        (shell(PAGE), {"anywidget": ""}, "JupyterLab 4 or Notebook 7", STATIC),
        (shell(PAGE), {"ipywidgets": "7.8.1"}, "JupyterLab 4 or Notebook 7", STATIC),
        (shell(PAGE, __vsc_ipynb_file__="n.ipynb"), {}, "VS Code", NO_CONTROL),
    ],
)
def test_each_place_has_its_rung(
    monkeypatch: pytest.MonkeyPatch,
    running: Any,
    versions: dict[str, str],
    place: str,
    rung: str,
) -> None:
    """By what IPython says of itself, what came with the cell, and what is installed."""
    found = judged(monkeypatch, running, **versions)
    assert (found.place.name, found.rung) == (place, rung)


def test_colab_is_found_by_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """And, as VS Code, it is said not to be tested."""
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    found = judged(monkeypatch, shell())
    assert (found.place.name, found.rung) == ("Colab", NO_CONTROL)
    assert "not tested in Colab; judged by what it documents" in repr(found)


def test_a_kernel_that_a_server_started_has_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front end that sends no cell id is known by the session that its server named."""
    judged(monkeypatch, shell())
    monkeypatch.setenv("JPY_SESSION_NAME", "n.ipynb")
    assert fi.doctor().rung == FULL


@pytest.mark.parametrize(
    ("versions", "advice"),
    [
        (
            {"anywidget": "0.9.1", "ipywidgets": ""},
            "pip install 'anywidget>=0.9.18' 'ipywidgets>=8'",
        ),
        ({"ipykernel": "6.31.0"}, "pip install 'ipykernel>=7', then restart the kernel"),
        ({"jupyterlab_widgets": ""}, "pip install jupyterlab_widgets where the Jupyter server"),
    ],
)
def test_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], advice: str
) -> None:
    """The command, as it is typed."""
    found = judged(monkeypatch, shell(PAGE), **versions)
    assert advice in "\n".join(found.advice)
    assert f"→ {found.advice[0]}" in repr(found)


def test_the_best_place_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No advice; place, rung and versions in a few lines; and the record cannot be changed."""
    found = judged(monkeypatch, shell(PAGE))
    assert found.advice == ()
    first, *_, last = repr(found).splitlines()
    assert first == "fi_notebook 0.1.0 in JupyterLab 4 or Notebook 7: full widget"
    assert "ipykernel 7.4.0" in last
    with pytest.raises(AttributeError):
        found.rung = TEXT


def test_it_runs_here() -> None:
    """In a test there is no IPython: text, with the versions that are installed."""
    found = fi.doctor()
    assert (found.place.name, found.rung) == ("a script", TEXT)
    assert found.versions["torch"].startswith("2.")
