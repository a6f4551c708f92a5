"""What a file of an injector's events, or a saved trace, comes to.

    2 injections
      gain struck 2 times, in steps 1, 2, at addmm*1:0: 16 elements changed
      never was not injected: asked for call 9 of relu, 1 was made
    training came to step 2

Of several ranks that wrote to one file, each is told by itself.

Limits: events are read whole; a file of many millions takes its size in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fi_notebook.analysis.words import several
from fi_notebook.core.site import PHASES, Target, module_text
from fi_notebook.core.stats import NONFINITE_NAMES, nonfinite_count
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import agreed, counted
from fi_notebook.errors import FiError, SiteError

__all__ = ["events", "sites", "trace"]


def trace(found: Trace) -> str:
    """Calls by phase, how many outputs are not finite, and which call made the first NaN and Inf.

    Args:
        found: A trace.

    Returns:
        Several lines of text.
    """
    phases = Counter(PHASES[phase] for phase in found.calls["phase"].tolist())
    lines = [f"{counted(found.call_count, 'call')}, {counted(len(found), 'site')}"]
    lines += [f"  {name}: {counted(phases[name], 'call')}" for name in PHASES if phases[name]]
    bad = nonfinite_count(found.site_columns) > 0
    many = int(bad.sum())
    lines.append(f"{counted(many, 'site')} {agreed(many, 'hold')} NaN or Inf")
    return "\n".join([*lines, *_first_of_each(found)])


def _first_of_each(found: Trace) -> list[str]:
    """How many sites hold NaN, +Inf and -Inf, and the first of each: no call before it made any."""
    lines = []
    for name, kind in NONFINITE_NAMES.items():
        rows = np.flatnonzero(found.site_columns[name] > 0)
        if len(rows):
            site = found.site(int(rows[0]))
            where = [site.phase, module_text(site.module), *(f.label for f in site.code[:1])]
            sites = counted(len(rows), "site")
            lines.append(f"  {kind}: {sites}, the first is {site} ({', '.join(where)})")
    return lines


def sites(found: Trace, target: str) -> str:
    """The sites that a target finds, one a line.

    Args:
        found: A trace.
        target: Text such as ``relu`` or ``addmm*3``.

    Returns:
        Lines of text: site, phase, module, source line, dtype and shape.

    Raises:
        SiteError: There is none; says why.
    """
    chosen = found.find(target)
    if not chosen:
        raise SiteError(found.missing(Target.parse(target)))
    return "\n".join(
        f"{site}  {site.phase}  {site.module}  {site.code[0].label if site.code else '-'}  "
        f"{site.dtype} {site.shape}"
        for site in chosen
    )


def events(path: Path) -> str:
    """What struck, what did not, and how far training came.

    Args:
        path: A file of JSON lines that an injector wrote.

    Returns:
        Several lines of text.

    Raises:
        FiError: A line is no event; names its number.
        OSError: The file cannot be read.
    """
    written = path.read_text(encoding="utf-8").splitlines()
    found = [_event(line, path, number) for number, line in enumerate(written, 1)]
    size = max((event.get("world_size", 1) for event in found), default=1)
    ranks = sorted({event.get("rank", 0) for event in found})
    if size == 1 and len(ranks) <= 1:
        return "\n".join(_record(found))
    lines = [f"{counted(_fired(found), 'injection')}, {counted(len(ranks), 'rank')}"]
    for rank in ranks:
        first, *more = _record([event for event in found if event.get("rank", 0) == rank])
        lines += [f"rank {rank}: {first}", *(f"  {line.strip()}" for line in more)]
    silent = [f"rank {rank}" for rank in range(size) if rank not in ranks]
    if silent:
        lines.append(f"no record of {several(silent)}: the run was cut off there")
    return "\n".join(lines)


def _fired(found: Sequence[dict[str, Any]]) -> int:
    return sum(event["event"] == "injection" for event in found)


def _record(found: Sequence[dict[str, Any]]) -> list[str]:
    """What one process wrote, in lines."""
    fired = [event for event in found if event["event"] == "injection"]
    lines = [counted(len(fired), "injection")]
    names = dict.fromkeys(event["fault"] for event in fired)
    lines += [_fault(name, [one for one in fired if one["fault"] == name]) for name in names]
    missed = [event for event in found if event["event"] == "not_injected"]
    lines += [f"  {event['fault']} was not injected: {event['reason']}" for event in missed]
    ended = bool(found) and found[-1]["event"] == "end"
    lines.append(f"training came to step {found[-1]['step']}" if ended else "the run was cut off")
    return lines


def _fault(name: str, fired: Sequence[dict[str, Any]]) -> str:
    steps = list(dict.fromkeys(str(event["step"]) for event in fired))
    where = f"{'step' if len(steps) == 1 else 'steps'} {', '.join(steps)}"
    places = several(list(dict.fromkeys(event["site"] for event in fired)))
    changed = counted(sum(event["changed"] for event in fired), "element")
    return (
        f"  {name} struck {counted(len(fired), 'time')}, in {where}, at {places}: {changed} changed"
    )


def _event(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise FiError(f"{path}: line {number} is no JSON: {error}") from None
    if not isinstance(event, dict) or "event" not in event:
        raise FiError(f"{path}: line {number} is no event of an injector")
    return event
