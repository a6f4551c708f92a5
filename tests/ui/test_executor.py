"""The worker thread and the updates on the way."""

from __future__ import annotations

import contextvars
import threading
from functools import partial
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from fi_notebook.ui.executor import Coalescer, Executor
from fi_notebook.ui.shells import refuse_cell
from tests.ui.shells import Shell

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="")


def _interrupted(executor: Executor, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Interrupt so many waits of a cell for the jobs, as a Ctrl-C does."""
    waits, wait = iter(range(times)), executor._until_idle

    def until_idle() -> None:
        if next(waits, None) is not None:
            raise KeyboardInterrupt
        wait()

    monkeypatch.setattr(executor, "_until_idle", until_idle)


class TestExecutor:
    """One thread, one job at a time."""

    def test_jobs_run_in_order_on_one_other_thread(self) -> None:
        """Never two at once, never on the caller's thread."""
        executor = Executor(shell=False)
        seen: list[tuple[int, int]] = []

        def job(number: int) -> None:
            seen.append((number, threading.get_ident()))

        for number in range(20):
            executor.submit(partial(job, number))
        assert executor.wait(10)
        assert [n for n, _ in seen] == list(range(20))
        assert threading.get_ident() not in {ident for _, ident in seen}

    def test_no_thread_is_left_when_nothing_is_to_do(self) -> None:
        """An idle executor is no thread at all."""
        executor = Executor(shell=False)
        executor.submit(lambda: None)
        assert executor.wait(10)
        assert "fi_notebook" not in {thread.name for thread in threading.enumerate()}

    def test_a_job_that_raises_does_not_end_the_others(self) -> None:
        """The next job runs."""
        executor, seen = Executor(shell=False), []

        def fail() -> None:
            raise ValueError("no")

        executor.submit(fail)
        executor.submit(lambda: seen.append(1))
        assert executor.wait(10)
        assert seen == [1]

    @pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
    def test_whatever_a_job_raises_the_thread_stays_usable(self, raised: BaseException) -> None:
        """After ``sys.exit`` in a job the next one runs, and no cell waits."""
        shell = Shell()
        executor, seen = Executor(shell=shell), []

        def leave() -> None:
            raise raised

        executor.submit(leave)
        assert executor.wait(1)
        executor.submit(lambda: seen.append(1))
        assert executor.wait(1)
        assert seen == [1]
        shell.begin()  # would wait for ever for a thread that died
        assert executor.cell == "the running cell"
        shell.end(1)
        executor.close()

    def test_a_job_sees_the_context_of_where_the_executor_was_made(self) -> None:
        """Context variables of the notebook hold in the worker."""
        token = NAME.set("notebook")
        executor, seen = Executor(shell=False), []
        NAME.reset(token)
        executor.submit(lambda: seen.append(NAME.get()))
        assert executor.wait(10)
        assert seen == ["notebook"]

    def test_a_job_waits_for_the_running_cell(self) -> None:
        """What is submitted while a cell runs starts when the cell has ended."""
        shell = Shell()
        executor, seen = Executor(shell=shell), []
        shell.end(6)
        shell.begin()
        assert executor.cell == "In [7]"
        executor.submit(lambda: seen.append(executor.cell))
        assert not executor.wait(0.05)
        assert not seen
        shell.end(7)
        assert executor.wait(10)
        assert seen == [""]
        executor.close()

    def test_a_cell_waits_for_the_running_job(self) -> None:
        """A cell that starts during a job begins when the job has ended."""
        shell, release, order = Shell(), threading.Event(), []
        executor = Executor(shell=shell)

        def job() -> None:
            release.wait(10)
            order.append("job")

        executor.submit(job)

        def run_cell() -> None:
            shell.begin()
            order.append("cell")

        cell = threading.Thread(target=run_cell)
        cell.start()
        release.set()
        cell.join(10)
        assert order == ["job", "cell"]
        shell.end(1)
        executor.close()

    def test_a_ctrl_c_in_a_waiting_cell_stops_the_jobs(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The job that runs ends first, the one that waits never begins; then the cell runs."""
        shell, begun, stop, order = Shell(), threading.Event(), threading.Event(), list[Any]()
        executor = Executor(cancel=stop.set, shell=shell)

        def job() -> None:
            begun.set()
            stop.wait(10)
            order.append(("job", executor.stopping))

        executor.submit(job)
        executor.submit(lambda: order.append("next"), lambda: order.append("dropped"))
        begun.wait(10)
        _interrupted(executor, monkeypatch, 1)
        shell.begin()
        assert order == ["dropped", ("job", True)]
        (told,) = caplog.messages
        assert told == (
            "the cell waits until the explorer's run has stopped and everything is put back; "
            "interrupt again to give the cell up"
        )
        assert (executor.cell, executor.stopping) == ("the running cell", False)
        assert shell.ast_transformers == []  # nothing keeps the cell from running
        executor.submit(lambda: order.append("after the cell"))
        assert not executor.wait(0)
        order.append("cell")
        shell.end(1)
        assert executor.wait(10)
        assert order[2:] == ["cell", "after the cell"]
        executor.close()

    def test_a_second_ctrl_c_gives_the_cell_up_while_a_job_goes_on(
        self, interpreter: InteractiveShell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing of it runs beside a job that hears no Stop; the next cell does, after the job."""
        executor = Executor(shell=interpreter)
        interpreter.events.trigger("post_run_cell", None)  # the test itself is no cell
        begun, release = threading.Event(), threading.Event()

        def job() -> None:
            begun.set()
            release.wait(10)

        executor.submit(job)
        begun.wait(10)
        _interrupted(executor, monkeypatch, 2)
        result = interpreter.run_cell("trained = True")
        error = result.error_before_exec
        assert type(error).__name__ == "InputRejected"
        assert str(error) == (
            "the cell was not run: the explorer still steps the model, and would put its state "
            "back over what the cell does; run the cell again, which waits, or restart the kernel"
        )
        assert "trained" not in interpreter.user_ns
        assert executor.cell == ""
        release.set()
        assert executor.wait(10)
        interpreter.run_cell("trained = True").raise_error()
        assert interpreter.user_ns.pop("trained")
        executor.close()

    def test_a_refusal_is_of_one_cell(self, interpreter: InteractiveShell) -> None:
        """Also where that cell could not be read, and so was not refused."""
        executor = Executor(shell=interpreter)
        refuse_cell(interpreter, "not now")
        assert interpreter.run_cell("1 +").error_before_exec is not None
        interpreter.run_cell("1 + 1").raise_error()
        assert interpreter.ast_transformers == []
        executor.close()

    def test_closing_lets_go_of_the_shell(self) -> None:
        """No callback of ours is left in IPython."""
        shell = Shell()
        Executor(shell=shell).close()
        assert shell.heard == {"pre_run_cell": [], "post_run_cell": []}


class TestCoalescer:
    """At most so many updates a second, the latest wins, the last is sent."""

    def test_the_first_goes_at_once_and_the_last_is_never_lost(self) -> None:
        """Of 3000 updates in a burst few are sent, the newest last."""
        sent: list[Any] = []
        coalescer = Coalescer(sent.append, interval=30)
        for number in range(3000):
            coalescer.put("progress", number)
        assert sent == [{"progress": 0}]
        coalescer.flush()
        assert sent == [{"progress": 0}, {"progress": 2999}]
        coalescer.flush()
        assert len(sent) == 2

    def test_kinds_travel_together(self) -> None:
        """One batch holds the latest of every kind."""
        sent: list[Any] = []
        coalescer = Coalescer(sent.append, interval=30)
        coalescer.put("state", 1)
        coalescer.put("state", 2)
        coalescer.put("steps", 3)
        coalescer.flush()
        assert sent[-1] == {"state": 2, "steps": 3}

    def test_a_sparing_one_sends_for_a_tenth_of_the_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that takes long delays none; where the next takes its 3 s too, the third waits
        until 10 * 3 = 30 s after that began.
        """
        now, sent = [100.0], list[Any]()
        monkeypatch.setattr("fi_notebook.ui.executor.time.monotonic", lambda: now[0])

        def send(batch: Any) -> None:
            sent.append(batch)
            now[0] += 3.0

        coalescer = Coalescer(send, sparing=True)
        coalescer.put("state", 0)
        coalescer.put("state", 1)
        assert sent == [{"state": 0}, {"state": 1}]  # this one began at 103 s
        now[0] = 132.0
        coalescer.put("state", 2)
        assert len(sent) == 2
        now[0] = 133.0
        coalescer.put("state", 3)
        assert sent[2:] == [{"state": 3}]

    @pytest.mark.parametrize("interval", [0, 30])
    def test_an_update_does_not_wait_for_another_thread_that_sends(self, interval: float) -> None:
        """What draws for long in a timer's thread holds no training up; the update is sent next."""
        began, release, order = threading.Event(), threading.Event(), list[Any]()

        def send(batch: Any) -> None:
            order.append(batch)
            began.set()
            release.wait(10)
            order.append("sent")

        coalescer = Coalescer(send, interval=interval)
        sender = threading.Thread(target=coalescer.put, args=("state", 1))
        sender.start()
        began.wait(10)
        coalescer.put("state", 2)
        order.append("put")
        release.set()
        sender.join(10)
        coalescer.flush()
        assert order == [{"state": 1}, "put", "sent", {"state": 2}, "sent"]

    def test_a_sender_that_fails_is_spared_too_and_told_of(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It fails after 3 s, twice: the next try is 10 * 3 = 30 s later; a timer logs it."""
        now, sent = [100.0], list[Any]()
        monkeypatch.setattr("fi_notebook.ui.executor.time.monotonic", lambda: now[0])

        def send(batch: Any) -> None:
            sent.append(batch)
            now[0] += 3.0
            raise ValueError("no page")

        coalescer = Coalescer(send, sparing=True)
        for update in (0, 1):
            with pytest.raises(ValueError, match="no page"):
                coalescer.put("state", update)
        now[0] = 132.0
        coalescer.put("state", 2)
        assert sent == [{"state": 0}, {"state": 1}]
        now[0] = 133.0
        coalescer._send_late()  # what the timer calls
        assert sent[2:] == [{"state": 2}]
        assert caplog.messages == ["an update of a widget could not be sent"]

    def test_what_waits_is_sent_by_itself(self) -> None:
        """After the interval the pending update goes without another."""
        arrived = threading.Event()
        sent: list[Any] = []

        def send(batch: Any) -> None:
            sent.append(batch)
            if batch == {"state": 2}:
                arrived.set()

        coalescer = Coalescer(send, interval=0.01)
        coalescer.put("state", 1)
        coalescer.put("state", 2)
        assert arrived.wait(10)
        assert sent == [{"state": 1}, {"state": 2}]
