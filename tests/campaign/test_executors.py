"""Workers: processes and Dask, killed, hanging and deadly ones, and a killed parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fi_notebook.campaign import Campaign, Results
from fi_notebook.campaign.executors import processes
from fi_notebook.campaign.guard import Guard, Overtime
from fi_notebook.campaign.journal import read_row
from fi_notebook.campaign.progress import Progress

QUICKSTART = "tests.campaign.sessions:quickstart"
N = 40

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def _campaign(n: int = N) -> Campaign:
    return Campaign(QUICKSTART, n=n, seed=11)


@pytest.fixture(scope="module")
def expected() -> str:
    """The rows as this process makes them."""
    return _rows(_campaign().run())


def _rows(results: Results) -> str:
    return repr([row.result for row in results])


@pytest.fixture
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two worker processes."""
    with processes(2) as made:
        yield made


def _once(after: int, act: Callable[[], object]) -> Callable[[Progress], None]:
    """What is told of progress, and acts once, when so many injections are done."""
    done: list[bool] = []

    def told(progress: Progress) -> None:
        if not done and progress.done >= after:
            done.append(True)
            act()

    return told


def test_two_processes_make_the_same_rows(pool: ProcessPoolExecutor, expected: str) -> None:
    """Whoever makes an injection, and in whatever order."""
    assert _rows(_campaign().run(pool, chunk=9)) == expected


def test_a_killed_worker_loses_and_doubles_nothing(
    pool: ProcessPoolExecutor, expected: str, tmp_path: Path
) -> None:
    """One of two is killed in the middle; its injections are made again, each once."""

    def kill() -> None:
        os.kill(next(iter(pool._processes)), signal.SIGKILL)

    path = tmp_path / "j.jsonl"
    found = _campaign().run(pool, journal=path, chunk=5, on_progress=_once(20, kill))
    assert _rows(found) == expected
    assert len(path.read_text().splitlines()) == N


def test_dask_makes_the_same_rows_though_a_worker_is_killed(expected: str, tmp_path: Path) -> None:
    """A real cluster on loopback, of three processes, one of which is killed."""
    code = f"""
import os, signal, sys
from distributed import Client, LocalCluster
from fi_notebook.campaign import Campaign
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                      host="127.0.0.1") as cluster, Client(cluster) as client:
        campaign, done = Campaign({QUICKSTART!r}, n={N}, seed=11), []
        def told(progress):
            if not done and progress.done >= 20:
                done.append(1)
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        found = campaign.run(client.get_executor(), chunk=5, on_progress=told,
                             journal={str(tmp_path / "j.jsonl")!r})
        assert done
        open({str(tmp_path / "rows")!r}, "w").write(repr([row.result for row in found]))
"""
    _python(code, tmp_path)
    assert (tmp_path / "rows").read_text() == expected
    assert len((tmp_path / "j.jsonl").read_text().splitlines()) == N


def _python(code: str, folder: Path) -> None:
    """Run a program of its own from a file, since spawned workers import their main module."""
    script = folder / "main.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("after", [3])
def test_a_killed_parent_goes_on_as_if_it_had_not_been(
    after: int, expected: str, tmp_path: Path
) -> None:
    """SIGKILL in the middle, a line torn, and the campaign again: the same rows, none twice."""
    path = tmp_path / "j.jsonl"
    code = f"""
from fi_notebook.campaign import Campaign
Campaign({QUICKSTART!r}, n={N}, seed=11).run(journal={str(path)!r}, chunk=3)
"""
    script = tmp_path / "main.py"
    script.write_text(code)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen([sys.executable, str(script)], env=env)
    wanted = after * 3
    for _ in range(2000):
        if path.exists() and path.read_bytes().count(b"\n") >= wanted:
            break
        time.sleep(0.02)
    child.kill()
    child.wait()
    made = path.read_bytes()
    assert 0 < made.count(b"\n") < N
    path.write_bytes(made[:-30])
    assert _rows(_campaign().run(journal=path)) == expected
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert len(whole) == N


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """A parent that is killed leaves no worker process behind."""
    code = f"""
import os
from fi_notebook.campaign import Campaign
from fi_notebook.campaign.executors import processes
if __name__ == "__main__":
    with processes(2) as pool:
        def told(progress):
            open({str(tmp_path / "pids")!r}, "w").write(" ".join(map(str, pool._processes)))
        Campaign({QUICKSTART!r}, n=3000, seed=11).run(pool, chunk=5, on_progress=told)
"""
    script = tmp_path / "main.py"
    script.write_text(code)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen([sys.executable, str(script)], env=env)
    pids = tmp_path / "pids"
    _wait_for(lambda: pids.exists() and bool(pids.read_text()))
    child.kill()
    child.wait()
    workers = [int(pid) for pid in pids.read_text().split()]
    _wait_for(lambda: not any(_runs(pid) for pid in workers))


def _wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("waited for a minute in vain")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


HUGE = {"model": "set", "parameters": {"value": 1e6}, "elements": {"index": [0, 0]}}


def test_a_fault_that_hangs_is_a_crash_with_the_reason() -> None:
    """A loop that makes calls for ever is stopped at one of them; the others are made."""
    campaign = Campaign(
        "tests.campaign.sessions:hanging",
        sites="addmm*1:0",
        faults=[HUGE, ("set", {"value": 1.0})],
        elements={"index": [0, 1]},
        strategy="exhaustive",
        timeout=1.5,
    )
    hung, plain = campaign.run()
    assert hung.outcome == "crash"
    assert "did not end within 1.5 s" in hung.reason
    assert plain.outcome == "changed"


def _forever() -> None:
    while True:
        sum(range(100))


def test_a_loop_without_calls_is_stopped_too() -> None:
    """Where nothing asks whether to stop, an exception is raised in the thread."""

    class Nobody:
        def cancel(self) -> None:
            """Nothing runs that could be cancelled."""

    with Guard(0.2, Nobody(), grace=0.2) as guard:
        with pytest.raises(Overtime), guard.watching():
            _forever()
        with guard.watching():
            assert threading.current_thread() is threading.main_thread()


def test_a_fault_that_kills_its_worker_is_a_crash_with_the_reason(
    pool: ProcessPoolExecutor,
) -> None:
    """Three workers die of it, each alone; all other injections are made."""
    campaign = Campaign(
        "tests.campaign.sessions:deadly",
        sites="addmm*1:0",
        faults=[HUGE, *(("set", {"value": float(value)}) for value in range(1, 6))],
        elements={"index": [0, 1]},
        strategy="exhaustive",
    )
    deadly, *others = campaign.run(pool, chunk=2)
    assert deadly.outcome == "crash"
    assert "ended its worker process 3 times" in deadly.reason
    assert [row.outcome for row in others] == ["changed"] * 5


@pytest.mark.soak
def test_two_thousand_flips_are_the_same_everywhere(tmp_path: Path) -> None:
    """2,000 injections: in this process, in two killed now and then; memory stays flat."""
    import resource

    path = tmp_path / "j.jsonl"
    began = time.monotonic()
    campaign = Campaign(QUICKSTART, n=2000, seed=1)
    peaks: list[int] = []
    one = campaign.run(
        on_progress=lambda _: peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    )
    assert time.monotonic() - began < 600
    middle = len(peaks) // 4
    assert peaks[-1] - peaks[middle] < 60_000, "grew by more than 60 MB"  # in KB
    pool = processes(2)
    kills = iter(range(300, 2000, 500))
    due = [next(kills)]

    def told(progress: Progress) -> None:
        if due and progress.done >= due[0]:
            due[:] = [n for n in [next(kills, 0)] if n]
            found = multiprocessing.active_children()
            if found:
                os.kill(found[0].pid or 0, signal.SIGKILL)

    two = Campaign(QUICKSTART, n=2000, seed=1).run(pool, journal=path, on_progress=told)
    pool.shutdown()
    assert _rows(one) == _rows(two)
    assert len(path.read_text().splitlines()) == 2000
    assert read_row(f"{path}:417").result == one.rows[416].result
