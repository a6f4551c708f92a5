"""A watch of a session: its replays, and a training loop of its model."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import fi_notebook as fi
from fi_notebook.core.watched import WatchedRun
from fi_notebook.errors import SessionCancelled
from fi_notebook.session import Session
from fi_notebook.watching import Watching
from tests import models


def opened(seed: int = 1) -> Session:
    """A session of the small MLP."""
    case = models.mlp(seed=seed)
    return Session(case.step, model=case.model, optimizer=case.optimizer)


def struck(session: Session, step: int) -> None:
    """Arm what makes the first relu 7 everywhere in one step."""
    session.arm("relu*1:0", "set", value=7.0, steps=step)


def test_golden_steps_are_the_band_and_faulty_ones_the_run() -> None:
    """Three steps, struck in the last: it leaves the golden run there, and was 7 * sqrt(24)."""
    session = opened()
    with session.watch("relu*1:0") as watch:
        struck(session, 2)
        session.replay(steps=3)
    (golden,) = watch.golden
    assert golden.series["relu*1:0"].steps.tolist() == [0, 1, 2]
    faulty = watch.current
    assert faulty.name == "faulty"
    norms = faulty.series["relu*1:0"].statistic("norm")
    assert norms[:2].tolist() == golden.series["relu*1:0"].statistic("norm")[:2].tolist()
    assert norms[2] == pytest.approx(7 * 24**0.5)
    assert watch.text().splitlines()[2].split()[-2:] == ["2", "0"]


def test_the_trace_is_the_golden_run_of_one_step() -> None:
    """A replay of one step runs no golden step again: the trace's own is the golden run."""
    session = opened()
    trace = session.trace()
    with session.watch(["relu*1:0", "grad:0.weight"]) as watch:
        struck(session, 0)
        session.replay()
    (golden,) = watch.golden
    row = trace.row("relu*1:0")
    assert golden.series["relu*1:0"].statistic("norm").tolist() == [trace.site_columns["norm"][row]]
    assert watch.current.series["relu*1:0"].statistic("min").tolist() == [7.0]
    assert watch.current.series["grad:0.weight"].steps.tolist() == [0]


def test_each_replay_begins_anew() -> None:
    """Two replays of two steps: the last one alone is the current run, over its own golden."""
    session = opened()
    with session.watch("relu*1:0") as watch:
        session.replay(steps=2)
        struck(session, 1)
        session.replay(steps=2)
    assert len(watch.golden) == 1
    assert watch.current.series["relu*1:0"].statistic("min").tolist()[1] == 7.0
    assert watch.current.last_step == 1


def test_the_golden_runs_of_a_person_stay_beside_that_of_a_replay() -> None:
    """One was given and one kept; after another replay both are there, and its own one."""
    session, given = opened(), WatchedRun("training", {})
    with session.watch("relu*1:0", golden=[given]) as watch:
        session.replay(steps=2)
        kept = watch.keep_as_golden()
        session.replay(steps=2)
    assert watch.golden[:2] == (given, kept)
    assert [run.name for run in watch.golden] == ["training", "faulty", "golden"]


def test_a_golden_run_that_was_cancelled_is_no_band() -> None:
    """It came to step 1 of three; the band is still that of the trace, which is step 0 alone."""
    session = opened()
    session.trace()
    with session.watch("relu*1:0") as watch:
        before = watch.golden
        end = session.subscribe(
            lambda event, payload: session.cancel() if event == "step" and _step(payload) else None
        )
        with pytest.raises(SessionCancelled):
            session.replay(steps=3)
        assert watch.current.last_step == 1
        end()
        session.replay()
    assert watch.golden == before
    assert [run.last_step for run in before] == [0]


def test_a_campaign_is_not_watched(caplog: pytest.LogCaptureFixture) -> None:
    """Two replays in full and two slices leave the watch as the replay of before left it.

    No listener is told of anything either; the next replay is read as ever.
    """
    session, told = opened(), []
    with session.watch("relu*1:0") as watch:
        struck(session, 0)
        session.replay()
        before = (watch.current.name, watch.golden, watch.unread, _minima(watch))
        end = session.subscribe(lambda event, _payload: told.append(event))
        for full in (True, False):
            fi.Campaign.of_subtree(session, "0", n=2, seed=1, steps=2, full=full).run()
        assert (watch.current.name, watch.golden, watch.unread, _minima(watch)) == before
        assert told == []
        end()
        session.replay(steps=2)
        assert _minima(watch)[0] == 7.0
        assert watch.current.last_step == 1
    assert "failed" not in caplog.text


def _minima(watch: Watching) -> list[float]:
    found: list[float] = watch.current.series["relu*1:0"].statistic("min").tolist()
    return found


def _step(payload: Mapping[str, Any]) -> int:
    step: int = payload["record"].step
    return step


def test_training_is_held_against_the_golden_run_of_a_replay() -> None:
    """A session puts everything back, so the loop's steps are the golden ones, bit for bit."""
    case = models.mlp(seed=1)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    with session.watch("relu*1:0") as watch:
        session.replay(steps=3)
        for _ in range(3):
            case.step()
    assert watch.current.name == "training"
    golden = watch.golden[0].series["relu*1:0"].values
    assert (watch.current.series["relu*1:0"].values == golden).all()


def test_watching_changes_no_replay() -> None:
    """Outcome and losses are those of a session that nobody watches."""
    runs = []
    for watched in (False, True):
        session = opened()
        watch = session.watch(["relu", "param:*", "grad:*"]) if watched else None
        struck(session, 1)
        runs.append(session.replay(steps=3))
        if watch is not None:
            watch.close()
    plain, seen = ([record.loss for record in run.faulty] for run in runs)
    assert plain == seen
    assert runs[0].outcome == runs[1].outcome


def test_what_the_golden_run_lacks_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A ninth relu, which the trace does not have; nothing is refused."""
    session = opened()
    session.trace()
    caplog.set_level(logging.WARNING, "fi_notebook")
    with session.watch(["relu*9:0"]) as watch:
        assert watch.unread == {"relu*9:0": "nothing was replayed yet"}
        session.replay(steps=2)
        assert watch.unread == {"relu*9:0": "asked for call 9 of relu, 2 were made"}
    told = [record.getMessage() for record in caplog.records]
    assert told == ["the golden run has nothing to watch: asked for call 9 of relu, 2 were made"]


def test_a_site_of_the_trace_is_watched() -> None:
    """What `find` gives can be handed on."""
    session = opened()
    sites = session.trace().find("addmm", module="2")
    with session.watch(sites) as watch:
        session.replay(steps=2)
    assert list(watch.current.series) == [str(site) for site in sites]


def test_a_closed_watch_looks_no_more() -> None:
    """A replay after it is not read, and costs no observer."""
    session = opened()
    watch = session.watch("relu*1:0")
    session.replay(steps=2)
    watch.close()
    struck(session, 1)
    session.replay(steps=2)
    assert (watch.current.series["relu*1:0"].statistic("min") != 7.0).all()
    assert not session._stage.setup.readers
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def test_the_root_offers_both() -> None:
    """``fi.watch`` gives what ``session.watch`` gives, without the replays."""
    case = models.mlp(seed=1)
    with fi.watch(case.model, "relu*1:0") as watch:
        case.step()
    assert watch.current.last_step == 0


def test_every_way_to_watch_names_its_arguments() -> None:
    """What `Watching` takes, with the same defaults, so that a notebook completes them."""
    expected = _keywords(Watching)
    assert list(expected) == [
        "modules",
        "phases",
        "steps",
        "golden",
        "optimizer",
        "micro_batch_per_step",
        "start_step",
    ]
    assert _keywords(fi.watch) == _keywords(Session.watch) == expected
    message = r"\bwatch\(\) got an unexpected keyword argument 'step'"
    with pytest.raises(TypeError, match=message):
        fi.watch(models.mlp(seed=1).model, "relu", step="0-:10")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=message):
        opened().watch("relu", step="0-:10")  # type: ignore[call-arg]


def _keywords(function: Callable[..., Any]) -> dict[str, tuple[str, Any]]:
    """Keyword-only parameters, each with its type and default."""
    every = inspect.signature(function).parameters.values()
    named = [one for one in every if one.kind is one.KEYWORD_ONLY]
    return {one.name: (one.annotation, one.default) for one in named}


def test_a_watch_hands_its_arguments_on() -> None:
    """Every second step of five of a loop that is resumed at step 10: 10, 12 and 14."""
    case = models.mlp(seed=1)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    given: dict[str, Any] = {
        "modules": "1",
        "phases": "forward",
        "steps": "0-:2",
        "golden": [WatchedRun("training", {})],
        "optimizer": case.optimizer,
        "micro_batch_per_step": 1,
        "start_step": 10,
    }
    with fi.watch(case.model, "relu", **given) as loop, session.watch("relu", **given) as both:
        for _ in range(5):
            case.step()
    for watch in (loop, both):
        assert list(watch.current.series) == ["relu*1:0"]
        assert watch.current.series["relu*1:0"].steps.tolist() == [10, 12, 14]
        assert watch.golden == tuple(given["golden"])
