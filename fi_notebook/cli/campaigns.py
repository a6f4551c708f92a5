"""``fi-notebook campaign`` and ``replay``: many faults, and one of them again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fi_notebook.cli.common import FAILED, Options, say
from fi_notebook.core.imports import importing_from

__all__ = ["campaign", "campaign_arguments", "replay", "replay_arguments"]


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
        say("Report", str(many.save_html(options.html)))
    return None


def campaign_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``campaign`` takes."""
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
            say("Report", str(opened(row).save_html(options.html)))
    return FAILED if differences else None


def replay_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``replay`` takes."""
    parser.add_argument("row", help="journal and number, such as journal.jsonl:417")
    parser.add_argument("--html", metavar="FILE", help="write the exploration of its replay")
