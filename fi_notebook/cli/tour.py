"""``fi-notebook demo`` and ``lab``: the whole job in the terminal, and the first notebook."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fi_notebook.cli.common import Options, say
from fi_notebook.core.tree import build_tree
from fi_notebook.core.words import counted

__all__ = ["demo", "demo_arguments", "lab"]

NOTEBOOK = Path("notebooks") / "01_quickstart.ipynb"
LAB_MISSING = "JupyterLab is not installed; install it with: pip install 'fi-notebook[lab]'"


def demo(options: Options) -> int | None:
    """Explore one training step on real digits: trace, arm, replay, compare.

    Then opens the quickstart notebook in JupyterLab, unless --no-lab is given.
    """
    import torch

    from fi_notebook.demo import make_demo
    from fi_notebook.session import Session

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)  # so that dropout keeps the element that is struck
        example = make_demo()
        session = Session(example.step, model=example.model, optimizer=example.optimizer)
        _show_demo(session)
    say("Report", f"{session.save_html(options.output)} (one file, opens offline)")
    return None if options.no_lab else lab(options)


def demo_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``demo`` takes."""
    parser.add_argument("--no-lab", action="store_true", help="stay in the terminal")
    parser.add_argument(
        "--output", default="fi-demo.html", metavar="FILE", help="the report (%(default)s)"
    )


def _show_demo(session: Any) -> None:
    """Print what each step of the job shows."""
    from fi_notebook.demo import BIT, TARGET, largest_element
    from fi_notebook.report import text

    trace = session.trace()
    for by, title in (("module", "modules"), ("source", "source lines"), ("op", "operators")):
        shown = build_tree(trace, by, folded=False)
        say(f"1. One training step as a tree of {title}", text.tree(shown, 2 - (by == "op")))
    hidden = trace.call_count - build_tree(trace, folded=False).calls
    print(
        f"\nnot shown: {counted(hidden, 'call')} such as detach; section 4 counts their outputs too"
    )
    site = trace.site(trace.row(TARGET))
    element = largest_element(trace.value(site))
    fault = session.arm(site, "bitflip", elements={"index": element}, bit=BIT)
    say("2. Armed", str(fault))
    run = session.replay()
    say("3. Before and after", text.injections(run))
    say("4. How the error ran through the later calls", text.propagation(run.comparison))
    say("5. Loss and gradient norm, golden against faulty", text.training(run))
    say("6. What came of it", "\n".join([text.outcome(run.outcome), *run.comparison.notes]))


def lab(_options: Options) -> int:
    """Open JupyterLab on the quickstart notebook, or on this folder where it has none."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise ModuleNotFoundError(LAB_MISSING)
    command = [sys.executable, "-m", "jupyterlab"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    command += [str(NOTEBOOK)] if NOTEBOOK.is_file() else []
    return subprocess.call(command)  # noqa: S603  # our own interpreter, no shell
