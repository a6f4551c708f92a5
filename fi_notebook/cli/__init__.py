"""The command line: ``fi-notebook demo | lab | trace | compare | run | …``.

    fi-notebook demo --no-lab              the whole job in the terminal, on real digits
    fi-notebook run injector.json train.py -- --epochs 1
    fi-notebook schema > injector.schema.json

Each subcommand is one function, and its docstring is its help. What goes wrong ends the
program with one message and exit code 1; wrong arguments end it with 2.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence

from fi_notebook.cli.campaigns import campaign, campaign_arguments, replay, replay_arguments
from fi_notebook.cli.common import FAILED, Options, no_arguments
from fi_notebook.cli.files import (
    compare,
    compare_arguments,
    report,
    report_arguments,
    schema,
    trace,
    trace_arguments,
)
from fi_notebook.cli.scripts import is_the_scripts, run, run_arguments
from fi_notebook.cli.tour import demo, demo_arguments, lab
from fi_notebook.core.versions import installed
from fi_notebook.errors import FiError

__all__ = ["main"]


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
        code = options.run(options) or 0
        sys.stdout.flush()
    except (FiError, ModuleNotFoundError, OSError) as error:
        if is_the_scripts(error):
            raise  # with its traceback
        if isinstance(error, BrokenPipeError):
            return _unread()
        print(f"fi-notebook {options.command}: {error}", file=sys.stderr)
        return FAILED
    return code


def _unread() -> int:
    """End as programs do whose reader, such as ``head``, has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor may Python's exit complain
    return FAILED


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
    for name, (function, add_arguments) in COMMANDS.items():
        help_text = inspect.getdoc(function) or ""
        command = commands.add_parser(
            name,
            help=help_text.partition("\n")[0],
            description=help_text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_arguments(command)
        command.set_defaults(run=function)
    return parser


COMMANDS: dict[
    str, tuple[Callable[[Options], int | None], Callable[[argparse.ArgumentParser], None]]
] = {
    "demo": (demo, demo_arguments),
    "lab": (lab, no_arguments),
    "trace": (trace, trace_arguments),
    "compare": (compare, compare_arguments),
    "run": (run, run_arguments),
    "campaign": (campaign, campaign_arguments),
    "replay": (replay, replay_arguments),
    "schema": (schema, no_arguments),
    "report": (report, report_arguments),
}
"""Each subcommand: what it does, and what it takes."""
