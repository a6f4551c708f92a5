"""``fi-notebook run``: a person's training script as the main program, with an injector.

    follow("injector.json", options)

What the script prints, raises and exits with is its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from fi_notebook.cli.common import Options
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.imports import importing_from
from fi_notebook.errors import FiError, did_you_mean

__all__ = ["follow", "is_the_scripts", "run", "run_arguments", "script_arguments"]


def run(options: Options) -> int | None:
    """Run a training script with the faults of a plan; no line of it is changed.

    fi-notebook run injector.json train.py -- --epochs 1
    fi-notebook run injector.json -m package.train -- --epochs 1

    One line is shown for each strike, and a report at the end; with -v also the calls of
    the listed steps, with -vv their shapes and source lines. A script that resumes a training
    is given the number of its first step, --start-step 600, since steps are counted from it.
    A plan of which no fault can strike the model ends with exit code 1, after the training.
    """
    return follow(options.plan, options)


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``run`` takes."""
    parser.add_argument("plan", help="injector.json, in either form")
    parser.add_argument("source", type=Path, metavar="script", help="the training script")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show more; twice: all")
    parser.add_argument(
        "--start-step",
        type=int,
        metavar="N",
        default=0,
        help="number of the first step, where the script resumes a training (%(default)s)",
    )
    parser.add_argument(
        "--micro-batch-per-step",
        type=int,
        metavar="N",
        help="forwards of the model that make a step; all up to an update if left out",
    )
    script_arguments(parser)


def script_arguments(parser: argparse.ArgumentParser) -> None:
    """What each subcommand takes that runs a script."""
    parser.add_argument(
        "-m",
        "--module",
        action="store_true",
        help="the script is the name of a module, as for python -m",
    )
    parser.add_argument(
        "--model",
        metavar="CLASS",
        help="class of the model, of which any part trains; if left out the first module that "
        "trains, or what holds it and all that its optimizer steps",
    )
    parser.add_argument("--events", metavar="FILE", help="write one JSON line per injection")
    parser.epilog = "What follows -- goes to the script."


def follow(plan: str | dict[str, Any], options: Options) -> int | None:
    """Run a script as the main program.

    Args:
        plan: What strikes it, or is logged of it.
        options: The script, and what `script_arguments` asks for.

    Returns:
        None; a script that ends with an exit code of its own ends the program with it.

    Raises:
        FiError: It cannot be run, trained nothing, or no fault can strike its model.
        OSError: There is no such script, or no folder for the events.
        ModuleNotFoundError: There is no such module.
    """
    from fi_notebook.injector import run_module, run_script
    from fi_notebook.injector.shown import shown

    _check(options)
    loaded = FaultPlan.load(plan)  # a plan that cannot be read fails before the script runs
    run_it = run_module if options.module else run_script
    with shown():
        injector = run_it(
            loaded,
            str(options.source),
            options.script_arguments,
            model=options.model,
            events=options.events,
            verbosity=_verbosity(loaded, getattr(options, "verbose", 0)),
            start_step=getattr(options, "start_step", 0),
            micro_batch_per_step=getattr(options, "micro_batch_per_step", None),
        )
    if len(loaded):
        print(injector.report())
    refused = {missed.fault for missed in injector.refused}
    if refused and refused == {fault.id for fault in loaded if fault.enabled}:
        raise FiError(
            "no fault of the plan can strike the model; the report above says why of each"
        )
    return None


def is_the_scripts(error: Exception) -> bool:
    """Whether the main program raised an error, and not what runs it."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "__main__" for frame, _ in frames)


def _check(options: Options) -> None:
    """Refuse what cannot be run, before anything runs."""
    script, plan = options.source, str(getattr(options, "plan", ""))
    if plan.endswith(".py") or script.suffix == ".json":
        raise FiError(
            f"the plan is {plan!r}, the script {str(script)!r}; the plan comes first: "
            f"fi-notebook run {script} {plan}"
        )
    if options.module:
        _check_module(str(script))
    elif not script.is_file():
        near = did_you_mean(script.name, [path.name for path in script.parent.glob("*.py")])
        raise FileNotFoundError(f"there is no script {str(script)!r}{near}")
    if options.events and not Path(options.events).absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder for the events {options.events!r}")


def _check_module(name: str) -> None:
    """Refuse a module that cannot be run as the main program."""
    if name.endswith(".py"):
        raise ModuleNotFoundError(f"{name!r} is a path; leave out -m, or give the module's name")
    with importing_from(Path.cwd()):
        found = _spec(name)
        if found is not None and found.submodule_search_locations is not None:
            name = f"{name}.__main__"  # a package is run by that
            found = _spec(name)
    if found is None:
        raise ModuleNotFoundError(
            f"there is no module {name!r} in {str(Path.cwd())!r} or installed"
        )


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is; what its parents raise when they are imported is their own."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as missing:
        if f"{name}.".startswith(f"{missing.name}."):
            return None
        raise


def _verbosity(plan: FaultPlan, asked: int) -> str:
    """What is logged: what was asked for, else strikes alone, unless the plan is for its log."""
    if asked:
        return "normal" if asked == 1 else "verbose"
    logs = not len(plan) or plan.log_steps is not None
    return plan.verbosity if logs or plan.verbosity == "verbose" else "quiet"
