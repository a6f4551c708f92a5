"""Workers: processes and Dask, killed, hanging and deadly ones, and a killed parent."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from torch import Tensor, nn

from fi_notebook.campaign import Campaign, Results
from fi_notebook.campaign.executors import processes
from fi_notebook.campaign.guard import Guard, Overtime
from fi_notebook.campaign.journal import read_row
from fi_notebook.campaign.progress import Progress
from fi_notebook.session import SessionCancelled
from tests.campaign import sessions

QUICKSTART = "tests.campaign.sessions:quickstart"
N = 40

pytestmark = [
    pytest.mark.timeout(600),
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


def _once(after: int, act: Callable[[], object]) -> Callable[[Progress], None]:
    """What is told of progress, and acts once, when so many injections are done."""
    done: list[bool] = []

    def told(progress: Progress) -> None:
        if not done and progress.done >= after:
            done.append(True)
            act()

    return told


def test_two_processes_make_the_same_rows_though_one_is_killed(
    expected: str, tmp_path: Path
) -> None:
    """Whoever makes an injection, in whatever order; what a dead worker had is made again, once."""

    def kill() -> None:
        os.kill(next(iter(pool._processes)), signal.SIGKILL)

    path = tmp_path / "j.jsonl"
    with processes(2) as pool:
        found = _campaign().run(pool, journal=path, chunk=5, on_progress=_once(20, kill))
    assert _rows(found) == expected
    assert _rows_in(path) == N


def test_dask_makes_the_same_rows_though_a_worker_is_killed(expected: str, tmp_path: Path) -> None:
    """A real cluster on loopback, of three processes, one of which is killed."""
    path = tmp_path / "j.jsonl"
    _python(_on_dask(path, N, 11, kills=(20,)), tmp_path)
    assert _rows(Results.load(path)) == expected
    assert _rows_in(path) == N


def _on_dask(journal: Path, n: int, seed: int, kills: tuple[int, ...]) -> str:
    """A campaign on a cluster of its own, whose workers are killed one after another."""
    return f"""
import os, signal
import dask
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context
from fi_notebook.campaign import Campaign
if __name__ == "__main__":
    dask.config.set({{"distributed.worker.multiprocessing-method": "forkserver"}})
    get_mp_context().set_forkserver_preload(["distributed", "fi_notebook.campaign.worker"])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                      host="127.0.0.1") as cluster, Client(cluster) as client:
        due = {list(kills)!r}
        def told(progress):
            if due and progress.done >= due[0]:
                due.pop(0)
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        campaign = Campaign({QUICKSTART!r}, n={n}, seed={seed})
        campaign.run(client.get_executor(), chunk=5, on_progress=told, journal={str(journal)!r})
        assert not due
"""


def _python(code: str, folder: Path) -> None:
    """Run a program of its own from a file, since spawned workers import their main module."""
    script = folder / "main.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=3000,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_killed_parent_leaves_no_worker_and_goes_on_as_if_it_had_not_been(
    expected: str, tmp_path: Path
) -> None:
    """SIGKILL in the middle, a line torn: its workers end, and the campaign run again has
    the same rows, none twice.
    """
    path, pids = tmp_path / "j.jsonl", tmp_path / "pids"
    child = _killed(_program(path, N, 11, pids=pids), tmp_path, lambda: _rows_in(path) >= 9)
    assert child != 0
    workers = [int(pid) for pid in pids.read_text().split()]
    assert len(workers) == 2
    _wait_for(lambda: not any(_runs(pid) for pid in workers))
    made = path.read_bytes()
    assert 0 < made.count(b"\n") < N
    path.write_bytes(made[:-30])
    assert _rows(_campaign().run(journal=path)) == expected
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert len(whole) == N


def _program(journal: Path, n: int, seed: int, pids: Path | None = None) -> str:
    """A campaign of two worker processes, which tells who they are."""
    told = "None" if pids is None else "told"
    return f"""
from fi_notebook.campaign import Campaign
from fi_notebook.campaign.executors import processes
from fi_notebook.core.files import written_whole
if __name__ == "__main__":
    with processes(2) as pool:
        def told(progress):
            # Whole or not at all: this program is killed at any moment.
            with written_whole({str(pids)!r}) as file:
                file.write(" ".join(map(str, pool._processes)).encode())
        campaign = Campaign({QUICKSTART!r}, n={n}, seed={seed})
        campaign.run(pool, journal={str(journal)!r}, chunk=3, on_progress={told})
"""


def _killed(code: str, folder: Path, due: Callable[[], bool]) -> int:
    """Run a program until it is time to kill it, or it ends; its exit code."""
    script = folder / "main.py"
    script.write_text(code)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen([sys.executable, str(script)], env=env)
    _wait_for(lambda: child.poll() is not None or due())
    child.kill()
    return child.wait()


def _has_rows(path: Path, count: int) -> bool:
    return _rows_in(path) >= count


def _rows_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 500
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


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


def test_a_session_that_is_cancelled_makes_no_crash() -> None:
    """Whoever stops the session ends the campaign; what was made is kept, the rest is not made."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        if float(out.detach()[0, 0]) > 100:
            session.cancel()
        return out.square().sum()

    session = sessions.small(forward)
    mild = {"model": "set", "parameters": {"value": 1.0}, "elements": {"index": [0, 1]}}
    campaign = Campaign.of_sites(
        session, "addmm*1:0", faults=[mild, HUGE], strategy="exhaustive", audit=0
    )
    with pytest.raises(SessionCancelled):
        campaign.run(chunk=1)
    assert [row.outcome for row in campaign.results] == ["changed"]


def _forever() -> None:
    while True:
        sum(range(100))


class Nobody:
    """What can be stopped anywhere."""

    def cancel(self) -> None:
        """Nothing runs that could be cancelled."""

    def interrupt(self, raise_in_it: Callable[[], object]) -> bool:
        """Anywhere."""
        raise_in_it()
        return True


def test_a_loop_without_calls_is_stopped_too() -> None:
    """Where nothing asks whether to stop, an exception is raised in the thread."""
    with Guard(0.2, Nobody(), grace=0.2) as guard:
        with pytest.raises(Overtime), guard.watching():
            _forever()
        with guard.watching():
            assert threading.current_thread() is threading.main_thread()


def test_what_is_put_back_is_not_interrupted() -> None:
    """The exception waits until everything is as it was, and comes then."""
    asked: list[bool] = []

    class Restoring:
        def cancel(self) -> None:
            """It is too late for that."""

        def interrupt(self, raise_in_it: Callable[[], object]) -> bool:
            """Not the first two times."""
            asked.append(len(asked) == 2)
            if asked[-1]:
                raise_in_it()
            return asked[-1]

    with Guard(0.05, Restoring(), grace=0.05) as guard:
        with pytest.raises(Overtime), guard.watching():
            _forever()
        with guard.watching():
            assert not guard.late
    assert asked == [False, False, True]


def test_time_that_ends_while_a_block_does_is_over() -> None:
    """Raised where the end of the block waits for the lock, it leaves no time to run out again."""

    class Late:
        def __enter__(self) -> None:
            raise Overtime

        def __exit__(self, *_: object) -> None:
            """Never entered."""

    guard = Guard(60.0, Nobody())
    with pytest.raises(Overtime), guard.watching():
        guard._lock = Late()  # type: ignore[assignment]  # as if it were raised just there
    assert guard._deadline is None


def test_a_fault_that_kills_its_worker_is_a_crash_with_the_reason() -> None:
    """Three workers die of it, each alone; all other injections are made."""
    campaign = Campaign(
        "tests.campaign.sessions:deadly",
        sites="addmm*1:0",
        faults=[HUGE, *(("set", {"value": float(value)}) for value in range(1, 6))],
        elements={"index": [0, 1]},
        strategy="exhaustive",
    )
    with processes(1) as one:
        deadly, *others = campaign.run(one, chunk=2)
    assert deadly.outcome == "crash"
    assert "ended its worker process 3 times" in deadly.reason
    assert [row.outcome for row in others] == ["changed"] * 5


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_flips_in_this_process_are_quick_and_memory_stays_flat(
    many: tuple[Results, list[int]],
) -> None:
    """From the first quarter to the end it grows by less than 60 MB."""
    _, peaks = many
    print("peak memory in MB:", [peak // 1024 for peak in peaks[:: max(1, len(peaks) // 8)]])
    assert peaks[-1] - peaks[len(peaks) // 4] < 60_000  # in KB


MANY = 2000


@pytest.fixture(scope="module")
def many() -> tuple[Results, list[int]]:
    """2,000 injections as this process makes them, and its peak memory on the way."""
    import resource

    peaks: list[int] = []
    began = time.monotonic()
    results = Campaign(QUICKSTART, n=MANY, seed=1).run(
        on_progress=lambda _: peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    )
    print(f"{MANY} injections in this process: {time.monotonic() - began:.0f} s")
    return results, peaks


def _same_rows(path: Path, found: Results, many: tuple[Results, list[int]]) -> None:
    """The same results, and every injection once in the journal."""
    assert _rows(found) == _rows(many[0])
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines() if line.endswith("}")]
    assert sorted(ids) == list(range(1, MANY + 1))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_flips_with_workers_killed_at_random(
    many: tuple[Results, list[int]], tmp_path: Path
) -> None:
    """Two processes, of which one is killed at four moments: the same rows, each once."""
    path, draw = tmp_path / "j.jsonl", random.Random(8)
    due = sorted(draw.sample(range(MANY // 20, MANY - MANY // 20), 4))

    def told(progress: Progress) -> None:
        if due and progress.done >= due[0]:
            due.pop(0)
            os.kill(draw.choice(multiprocessing.active_children()).pid or 0, signal.SIGKILL)

    with processes(2) as pool:
        found = Campaign(QUICKSTART, n=MANY, seed=1).run(pool, journal=path, on_progress=told)
    assert not due
    _same_rows(path, found, many)
    assert read_row(f"{path}:417").result == many[0].rows[416].result


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_flips_with_the_parent_killed_at_random(
    many: tuple[Results, list[int]], tmp_path: Path
) -> None:
    """The whole program is killed at four moments and begun again: the same rows, each once."""
    path, draw = tmp_path / "j.jsonl", random.Random(9)
    code = _program(path, MANY, 1)
    for due in sorted(draw.sample(range(MANY // 20, MANY - MANY // 10), 4)):
        assert _killed(code, tmp_path, partial(_has_rows, path, due)) != 0
    assert _rows_in(path) < MANY
    _same_rows(path, Campaign(QUICKSTART, n=MANY, seed=1).run(journal=path), many)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_flips_on_dask_with_workers_killed(
    many: tuple[Results, list[int]], tmp_path: Path
) -> None:
    """A Dask cluster of two processes, of which one is killed twice: the same rows, each once."""
    path = tmp_path / "j.jsonl"
    _python(_on_dask(path, MANY, 1, kills=(MANY // 5, 3 * MANY // 5)), tmp_path)
    _same_rows(path, Results.load(path), many)
