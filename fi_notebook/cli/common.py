"""What the subcommands share: what they are given, and how they print.

say("Report", "fi-demo.html")
"""

from __future__ import annotations

import argparse

__all__ = ["FAILED", "Options", "no_arguments", "say"]

FAILED = 1
"""Exit code where something went wrong."""

Options = argparse.Namespace


def say(title: str, body: str) -> None:
    """Print a title and what stands below it."""
    print(f"\n{title}\n{'─' * len(title)}\n{body}", flush=True)


def no_arguments(_parser: argparse.ArgumentParser) -> None:
    """A subcommand that takes none."""
