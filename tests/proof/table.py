"""The table of what was proved, as Markdown.

    python -m tests.proof.table found.jsonl                  # what is not in the file yet
    python -m tests.proof.table found.jsonl gpt2 float32     # of that, what has these words
    python -m tests.proof.table found.jsonl --compiled       # of that, what is compiled
    python -m tests.proof.table found.jsonl --print          # the table of what is in it

Each case is one line of JSON as soon as it is done, so that a run can be stopped and
gone on with.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.proof.cases import CASES, ProofCase, prove
from tests.proof.compiling import compiled_differences
from tests.proof.placing import UNEXPLAINED
from tests.proof.recipes import RECIPES

_HEAD = (
    "| architecture | dtype | optimizer | calls | with module and line | the rest "
    "| backward places checked | bit-equal | compiled |\n|---|---|---|---|---|---|---|---|---|"
)


def _prove(path: Path, words: list[str], *, eager: bool) -> None:
    """What is eager first, then what is compiled."""
    chosen = {title: case for title, case in CASES.items() if all(w in title for w in words)}
    for title, case in chosen.items() if eager else ():
        _once(path, title, "", partial(_proved, case))
    for title, case in chosen.items():
        for backend in case.backends:
            _once(path, title, backend, partial(_compiled, case, backend))


def _once(path: Path, title: str, backend: str, job: Callable[[], dict[str, Any]]) -> None:
    """Add a row to the file, where it has none of that kind yet."""
    key = {"case": title, "backend": backend}
    if any(key.items() <= row.items() for row in _read(path)):
        return
    begun = time.perf_counter()
    try:
        row = key | job()
    except Exception as error:  # noqa: BLE001  # a row of the table, and the next case
        row = key | {"error": repr(error)}
    row["seconds"] = round(time.perf_counter() - begun, 1)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _proved(case: ProofCase) -> dict[str, Any]:
    verdict = prove(case)
    found = verdict.placed
    return {
        "calls": found.calls,
        "without": found.without,
        "checked": found.checked,
        "wrong": found.wrong,
        "changed": verdict.changed,
    }


def _compiled(case: ProofCase, backend: str) -> dict[str, Any]:
    return {"changed": compiled_differences(case.make, backend)}


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield _HEAD
    compiled: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["backend"]:
            said = "failed" if "error" in row else "differs" if row["changed"] else "equal"
            compiled[row["case"]].append(f"{row['backend']}: {said}")
    for row in sorted(rows, key=lambda row: list(CASES).index(row["case"])):
        if not row["backend"]:
            cells = [*_cells(row), ", ".join(compiled[row["case"]]) or "not run"]
            yield "| " + " | ".join(cells) + " |"


def _cells(row: Mapping[str, Any]) -> list[str]:
    case = CASES[row["case"]]
    named = [
        f"{case.name} ({RECIPES[case.name].family})",
        str(case.dtype).removeprefix("torch."),
        case.optimizer,
    ]
    if "error" in row:
        return [*named, f"failed: {row['error']}", "", "", "", ""]
    without = sum(row["without"].values())
    told = [name for name, found in row["changed"].items() if not found]
    return [
        *named,
        str(row["calls"]),
        f"{100 * (row['calls'] - without) / row['calls']:.1f} %",
        "; ".join(f"{count} {reason}" for reason, count in row["without"].items()),
        f"{row['checked']}, {len(row['wrong'])} wrong",
        f"{len(told)} of {len(row['changed'])}",
    ]


def _summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What all rows say together."""
    cases = [row for row in rows if not row["backend"]]
    good = [row for row in cases if "error" not in row]
    names = {CASES[row["case"]].name for row in good}
    compiled = [row for row in rows if row["backend"] and "error" not in row]
    calls = sum(row["calls"] for row in good)
    without = sum((Counter(row["without"]) for row in good), Counter[str]())
    unexplained = sum(n for reason, n in without.items() if reason.startswith(UNEXPLAINED))
    differ = [row["case"] for row in good if any(row["changed"].values())]
    yield (
        f"{len(good)} of {len(CASES)} cases, {len(names)} architectures: "
        f"{len(differ)} differ in any bit."
    )
    yield (
        f"{len({row['case'] for row in compiled})} of them were compiled too: "
        f"{sum(bool(row['changed']) for row in compiled)} differ in any bit, or in how often "
        "their graphs ran."
    )
    yield (
        f"{calls - without.total()} of {calls} calls have a module and a line; of the rest, "
        f"{unexplained} lack them without a reason."
    )
    yield (
        f"{sum(row['checked'] for row in good)} modules and lines of backward calls were "
        f"checked; {sum(len(row['wrong']) for row in good)} were wrong."
    )


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    file, flags = Path(sys.argv[1]), {each for each in sys.argv[2:] if each.startswith("--")}
    if "--print" in flags:
        print(*(f"- {line}" for line in _summary(_read(file))), "", *_table(_read(file)), sep="\n")
    else:
        given = [each for each in sys.argv[2:] if each not in flags]
        _prove(file, given, eager="--compiled" not in flags)
