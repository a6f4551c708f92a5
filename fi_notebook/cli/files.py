"""``fi-notebook trace``, ``compare``, ``report`` and ``schema``: what files hold."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fi_notebook.cli.common import Options
from fi_notebook.cli.scripts import follow, script_arguments
from fi_notebook.core.trace import Trace
from fi_notebook.core.tree import VIEWS
from fi_notebook.core.words import agreed
from fi_notebook.errors import FiError

__all__ = [
    "compare",
    "compare_arguments",
    "report",
    "report_arguments",
    "schema",
    "trace",
    "trace_arguments",
]

LOG_ONLY: dict[str, Any] = {"version": 2, "modules": [""], "log_steps": [0]}
"""The plan of ``trace SCRIPT``: nothing strikes, and the calls of step 0 are logged."""


def trace(options: Options) -> int | None:
    """Print a saved trace as a tree, or log the calls of a script's first step.

    fi-notebook trace step.fi --by source --depth 4
    fi-notebook trace step.fi --find "relu*2"
    fi-notebook trace train.py -- --epochs 1
    fi-notebook trace -m package.train -- --epochs 1
    """
    from fi_notebook.report import text, text_files

    if options.module or options.source.suffix == ".py":
        _check_none_asked(options)
        return follow(LOG_ONLY, options)
    loaded = Trace.load(options.source)
    if options.find is None:
        asked = () if options.depth is None else (options.depth,)
        print(text.tree(loaded.tree(options.by or "module"), *asked))
    else:
        print(text_files.sites(loaded, options.find))
    return None


def trace_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``trace`` takes."""
    parser.add_argument("source", type=Path, help="a file of trace.save(), or a Python script")
    parser.add_argument("--by", choices=tuple(VIEWS), help="view of the tree (module)")
    parser.add_argument("--depth", type=int, help="levels to show (3)")
    parser.add_argument("--find", metavar="TARGET", help="list these sites in place of the tree")
    script_arguments(parser)


def _check_none_asked(options: Options) -> None:
    """Refuse what chooses from a saved trace, where a script's calls are logged as they come."""
    asked = [f"--{name}" for name in ("by", "depth", "find") if getattr(options, name) is not None]
    if asked:
        raise FiError(
            f"{', '.join(asked)} {agreed(len(asked), 'choose')} from a saved trace, and "
            f"{str(options.source)!r} is a script, whose calls are logged as they come; leave "
            "that out, or save a trace in Python: fi.Session(step, …).trace().save('step.fi')"
        )


def compare(options: Options) -> int:
    """Compare two saved traces, such as those of two machines or two versions.

    fi-notebook compare golden.fi faulty.fi --tolerance 1e-5

    Shows where they first differ and the calls that are furthest apart. As with diff, the
    exit code is 0 where nothing differs, and 1 where something does.
    """
    from fi_notebook.analysis.compare import compare as compare_traces
    from fi_notebook.report import text

    found = compare_traces(options.golden, options.faulty, tolerance=options.tolerance)
    print(*found.notes, text.propagation(found, options.limit), sep="\n")
    return int(len(found.diverged) > 0)


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``compare`` takes."""
    parser.add_argument("golden", type=Path, help="a file of trace.save()")
    parser.add_argument("faulty", type=Path, help="the one to be judged")
    parser.add_argument(
        "--tolerance", type=float, default=0.0, help="relative L2 that is no difference"
    )
    parser.add_argument("--limit", type=int, default=20, help="calls to show (%(default)s)")


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


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``report`` takes."""
    parser.add_argument("file", type=Path, help="a file of --events, or of trace.save()")


def schema(_options: Options) -> int | None:
    """Print the JSON schema of injector.json, with every fault model."""
    from fi_notebook import config

    print(json.dumps(config.schema(), indent=2))
    return None
