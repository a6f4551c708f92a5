"""The command line: ``fi-notebook demo | lab | trace | run | schema | report | …``.

    fi-notebook demo --no-lab              the whole job in the terminal, on real digits
    fi-notebook run injector.json train.py -- --epochs 1
    fi-notebook schema > injector.schema.json

Each subcommand is one function, and its docstring is its help. What goes wrong ends the
program with one message and exit code 1; wrong arguments end it with 2.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.imports import importing_from
from fi_notebook.core.trace import Trace
from fi_notebook.core.tree import VIEWS, build_tree
from fi_notebook.core.versions import installed
from fi_notebook.core.words import counted
from fi_notebook.errors import FiError, did_you_mean

__all__ = ["main"]

FAILED = 1
NOTEBOOK = Path("notebooks") / "01_quickstart.ipynb"
LAB_MISSING = "JupyterLab is not installed; install it with: pip install 'fi-notebook[lab]'"

LOG_ONLY: dict[str, Any] = {"version": 2, "modules": [""], "log_steps": [0]}
"""The plan of ``trace SCRIPT``: nothing strikes, and the calls of step 0 are logged."""

Options = argparse.Namespace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: What stands on the command line; that of this process if left out.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    parser = _parser()
    options, unknown = parser.parse_known_args(given[:end])
    if unknown:
        hint = "; what is for the script stands after --" if "events" in options else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    options.script_arguments = given[end + 1 :]
    try:
        return options.run(options) or 0
    except (FiError, ModuleNotFoundError, OSError) as error:
        if _is_raised_in(getattr(options, "source", None), error):
            raise  # the script's own error, with its traceback
        print(f"fi-notebook {options.command}: {error}", file=sys.stderr)
        return FAILED


def _is_raised_in(script: Path | None, error: Exception) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename == str(script) for frame, _ in frames)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fi-notebook",
        description="A fault-injection debugger for one PyTorch training step.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"fi-notebook {installed('fi-notebook') or '(not installed)'}",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, (run, add_arguments) in COMMANDS.items():
        help_text = inspect.getdoc(run) or ""
        command = commands.add_parser(
            name,
            help=help_text.partition("\n")[0],
            description=help_text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_arguments(command)
        command.set_defaults(run=run)
    return parser


# demo and lab


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
    _say("Report", f"{session.save_html(options.output)} (one file, opens offline)")
    return None if options.no_lab else lab(options)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
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
        _say(f"1. One training step as a tree of {title}", text.tree(shown, 2 - (by == "op")))
    hidden = trace.call_count - build_tree(trace, folded=False).calls
    print(
        f"\nnot shown: {counted(hidden, 'call')} such as detach; section 4 counts their outputs too"
    )
    site = trace.site(trace.row(TARGET))
    element = largest_element(trace.value(site))
    fault = session.arm(site, "bitflip", elements={"index": element}, bit=BIT)
    _say("2. Armed", str(fault))
    run = session.replay()
    _say("3. Before and after", text.injections(run))
    _say("4. How the error ran through the later calls", text.propagation(run.comparison))
    _say("5. Loss and gradient norm, golden against faulty", text.training(run))
    _say("6. What came of it", "\n".join([text.outcome(run.outcome), *run.comparison.notes]))


def _say(title: str, body: str) -> None:
    print(f"\n{title}\n{'─' * len(title)}\n{body}", flush=True)


def lab(_options: Options) -> int:
    """Open JupyterLab on the quickstart notebook, or on this folder where it has none."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise ModuleNotFoundError(LAB_MISSING)
    command = [sys.executable, "-m", "jupyterlab"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    command += [str(NOTEBOOK)] if NOTEBOOK.is_file() else []
    return subprocess.call(command)  # noqa: S603  # our own interpreter, no shell


# trace, run and report


def trace(options: Options) -> int | None:
    """Print a saved trace as a tree, or log the calls of a script's first step.

    fi-notebook trace step.fi --by source --depth 4
    fi-notebook trace step.fi --find "relu*2"
    fi-notebook trace train.py -- --epochs 1
    """
    from fi_notebook.report import text, text_files

    if options.source.suffix == ".py":
        return _run_script(LOG_ONLY, options)
    loaded = Trace.load(options.source)
    if options.find is None:
        print(text.tree(loaded.tree(options.by), options.depth))
    else:
        print(text_files.sites(loaded, options.find))
    return None


def _trace_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, help="a file of trace.save(), or a Python script")
    parser.add_argument("--by", choices=tuple(VIEWS), default="module", help="view of the tree")
    parser.add_argument("--depth", type=int, default=3, help="levels to show (%(default)s)")
    parser.add_argument("--find", metavar="TARGET", help="list these sites in place of the tree")
    _script_arguments(parser)


def run(options: Options) -> int | None:
    """Run a training script with the faults of a plan; no line of it is changed.

    fi-notebook run injector.json train.py -- --epochs 1

    One line is shown for each strike, and a report at the end; with -v also the calls of
    the listed steps, with -vv their shapes and source lines. A plan of which no fault can
    strike the model ends with exit code 1, after the training.
    """
    return _run_script(options.plan, options)


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="injector.json, in either form")
    parser.add_argument("source", type=Path, metavar="script", help="the training script")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show more; twice: all")
    _script_arguments(parser)


def _script_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="class of the model; the first that trains if left out")
    parser.add_argument("--events", metavar="FILE", help="write one JSON line per injection")
    parser.epilog = "What follows -- goes to the script."


def _run_script(plan: str | dict[str, Any], options: Options) -> int | None:
    """Run a script as the main program; its own exit code is given back."""
    from fi_notebook.injector import run_script
    from fi_notebook.injector.shown import shown

    _check_script(options)
    loaded = FaultPlan.load(plan)  # a plan that cannot be read fails before the script runs
    with shown():
        injector = run_script(
            loaded,
            options.source,
            options.script_arguments,
            model=options.model,
            events=options.events,
            verbosity=_verbosity(loaded, getattr(options, "verbose", 0)),
        )
    if len(loaded):
        print(injector.report())
    refused = {missed.fault for missed in injector.refused}
    if refused and refused == {fault.id for fault in loaded if fault.enabled}:
        raise FiError(
            "no fault of the plan can strike the model; the report above says why of each"
        )
    return None


def _check_script(options: Options) -> None:
    """Refuse what cannot be run, before anything runs."""
    script, plan = options.source, str(getattr(options, "plan", ""))
    if plan.endswith(".py") or script.suffix == ".json":
        raise FiError(
            f"the plan is {plan!r}, the script {str(script)!r}; the plan comes first: "
            f"fi-notebook run {script} {plan}"
        )
    if not script.is_file():
        near = did_you_mean(script.name, [path.name for path in script.parent.glob("*.py")])
        raise FileNotFoundError(f"there is no script {str(script)!r}{near}")
    if options.events and not Path(options.events).absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder for the events {options.events!r}")


def _verbosity(plan: FaultPlan, asked: int) -> str:
    """What is logged: what was asked for, else strikes alone, unless the plan is for its log."""
    if asked:
        return "normal" if asked == 1 else "verbose"
    logs = not len(plan) or plan.log_steps is not None
    return plan.verbosity if logs or plan.verbosity == "verbose" else "quiet"


def report(options: Options) -> int | None:
    """Sum up what was written while a script ran, or a saved trace.

    fi-notebook report events.jsonl      what struck, what did not, how far it came
    fi-notebook report step.fi           calls by phase, and outputs that are not finite
    """
    from fi_notebook.report import text_files

    path: Path = options.file
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    print(text_files.trace(Trace.load(path)) if is_archive else text_files.events(path))
    return None


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a file of --events, or of trace.save()")


# the rest


def schema(_options: Options) -> int | None:
    """Print the JSON schema of injector.json, with every fault model."""
    from fi_notebook import config

    print(json.dumps(config.schema(), indent=2))
    return None


def campaign(options: Options) -> int | None:
    """Try many faults on one training step, and count how they end.

    fi-notebook campaign campaign.json --journal run.jsonl --workers 4 --html run.html

    The file holds the arguments of Campaign: make_session ("module:function"), n, seed …
    """
    from fi_notebook.campaign.again import from_file
    from fi_notebook.campaign.executors import executor_of
    from fi_notebook.campaign.pictures import facts, summary

    with importing_from(Path.cwd()):
        many = from_file(options.plan)
        if options.dry_run:
            print(many.dry_run())
            return None
        with executor_of(options.workers, options.dask) as executor:
            results = many.run(
                executor,
                journal=options.journal,
                stop=options.stop,
                on_progress=lambda progress: print(progress, file=sys.stderr, flush=True),
            )
    print(*facts(results), "", summary(results), sep="\n")
    if options.html:
        _say("Report", str(many.save_html(options.html)))
    return None


def _campaign_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="a JSON file with the arguments of Campaign")
    parser.add_argument("--dry-run", action="store_true", help="say how many and how long")
    parser.add_argument("--journal", metavar="FILE", help="where the rows are kept")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 is this one")
    parser.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster")
    parser.add_argument("--stop", type=float, metavar="WIDTH", help="interval that is enough")
    parser.add_argument("--html", metavar="FILE", help="write a report")


def replay(options: Options) -> int | None:
    """Make one injection again: ``journal.jsonl:417``, compared bit for bit."""
    from fi_notebook.campaign.again import again, opened
    from fi_notebook.campaign.journal import read_row

    row = read_row(options.row)
    with importing_from(Path.cwd()):
        made, differences = again(row)
        print(
            f"injection {made.id} at {made.site}, step {made.step}: {made.outcome}: {made.reason}"
        )
        print("\n".join(differences) or "the same as in the journal, bit for bit")
        if options.html:
            _say("Report", str(opened(row).save_html(options.html)))
    return FAILED if differences else None


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("row", help="journal and number, such as journal.jsonl:417")
    parser.add_argument("--html", metavar="FILE", help="write the exploration of its replay")


def _no_arguments(_parser: argparse.ArgumentParser) -> None:
    return


COMMANDS: dict[
    str, tuple[Callable[[Options], int | None], Callable[[argparse.ArgumentParser], None]]
] = {
    "demo": (demo, _demo_arguments),
    "lab": (lab, _no_arguments),
    "trace": (trace, _trace_arguments),
    "run": (run, _run_arguments),
    "campaign": (campaign, _campaign_arguments),
    "replay": (replay, _replay_arguments),
    "schema": (schema, _no_arguments),
    "report": (report, _report_arguments),
}
"""Each subcommand: what it does, and what it takes."""


if __name__ == "__main__":
    sys.exit(main())
