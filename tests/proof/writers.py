"""Writes every file that the package writes, where the disk or the folder refuses: a script.

    python -m tests.proof.writers folder         # prints what happened, as JSON

Each file is written once; then again with room for half of it (a limit on the size of
files stands for a full disk), and once more by a user who may not write in the folder.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fi_notebook as fi
from tests import models
from tests.campaign import sessions

_NOBODY = 65534


def _explored() -> fi.Session:
    case = models.mlp()
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("addmm*1:0", "bitflip", bit=30)
    session.replay()
    return session


def _events(path: Path) -> None:
    case = models.mlp()
    plan = {"version": 2, "faults": [{"target": "addmm*1", "model": "zero"}]}
    with fi.Injector(plan, model=case.model, events=path):
        for _ in range(3):
            case.step()


def _spilled(path: Path) -> None:
    case = models.mlp()
    fi.Session(case.step, model=case.model, optimizer=case.optimizer, memory=0, spill=path).trace()


def _campaign() -> fi.Campaign:
    return fi.Campaign(sessions.quickstart, faults=["zero"], n=4, seed=1)


def _journal(path: Path) -> None:
    _campaign().run(journal=path)


def _writers() -> dict[str, Callable[[Path], Any]]:
    session, campaign = _explored(), _campaign()
    assert session.golden is not None
    campaign.run()
    return {
        "plan.json": session.plan.save,
        "step.trace": session.golden.save,
        "report.html": session.save_html,
        "campaign.html": campaign.save_html,
        "spill.safetensors": _spilled,
        "events.jsonl": _events,
        "run.jsonl": _journal,
    }


def _refused(write: Callable[[Path], Any], path: Path) -> dict[str, Any]:
    """What is raised, and what is left of the file and in its folder."""
    before = path.read_bytes() if path.exists() else None
    raised: BaseException | None = None
    try:
        write(path)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked at
        raised = error
    after = path.read_bytes() if path.exists() else None
    return {
        "raised": None if raised is None else type(raised).__name__,
        "said": str(raised),
        "same": after == before,
        "begins the same": before is not None and bool(after) and after[: len(before)] == before,  # type: ignore[index]  # it is not empty
        "whole lines": bool(after) and after.endswith(b"\n"),  # type: ignore[union-attr]  # it is not empty
        "files": sorted(each.name for each in path.parent.iterdir()),
    }


def _when_full(write: Callable[[Path], Any], path: Path) -> dict[str, Any]:
    write(path)
    size = path.stat().st_size
    room = size + size // 3 if path.suffix == ".jsonl" else size // 2
    if path.suffix == ".jsonl" and path.name.startswith("run"):
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])  # the rest is made again
        room = 2 * path.stat().st_size
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        return _refused(write, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def _when_forbidden(write: Callable[[Path], Any], path: Path) -> dict[str, Any]:
    root = os.geteuid() == 0
    path.parent.chmod(0o555)
    if root:
        os.seteuid(_NOBODY)  # whom root's folders do refuse
    try:
        return _refused(write, path)
    finally:
        if root:
            os.seteuid(0)
        path.parent.chmod(0o755)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    found = {}
    for _name, _write in _writers().items():
        _folder = Path(sys.argv[1], _name)
        _folder.mkdir()
        found[_name] = {"full": _when_full(_write, _folder / _name)}
        _bare = Path(sys.argv[1], f"no {_name}")
        _bare.mkdir()
        found[_name]["forbidden"] = _when_forbidden(_write, _bare / _name)
    print(json.dumps(found))
