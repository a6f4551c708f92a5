"""What is looked at of outputs: nothing twice, and never anything stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fi_notebook.core.stats import STATISTICS
from fi_notebook.engine import looks
from fi_notebook.engine.bits import position_hash
from fi_notebook.engine.intercept import Interceptor, Watch
from fi_notebook.engine.makers import Makers
from fi_notebook.engine.outputs import FUNCTIONAL, IN_PLACE, VIEW, Output
from fi_notebook.engine.replay import Setup, StepResult, observed, run_step
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.stats import tensor_stats
from fi_notebook.engine.store import ValueStore


class Views(nn.Module):
    """Every kind of view of results and of a parameter, and writes between them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).reshape(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.weight
        first, second = y.split(2, dim=1)
        z = y.t().reshape(2, 6).unsqueeze(0) + y.view(1, 2, 6) + self.weight.t().sum()
        written = z.clone()
        before = written.view(12)
        written.mul_(2)
        after = written.view(12)
        cast = (x + 1).view(torch.int32).float()
        turned = torch.view_as_complex(y.reshape(3, 2, 2)).conj().abs()
        spread = first.sum(1, keepdim=True).expand(3, 5)
        return (before * after).sum() + second.sum() + turned.sum() + spread.sum() + cast.sum() * 0


class Everything:
    """An observer that looks at each output by itself, without knowing the others."""

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, Any, int]] = []

    def before(self, call: Any) -> None:
        """Nothing."""

    def after(self, call: Any, result: Any) -> Any:
        """Statistics, values and hash of what was given, now."""
        from fi_notebook.engine.outputs import outputs

        for output in outputs(call.func, call.args, call.kwargs, result):
            tensor = output.tensor
            self.seen.append((tensor.detach().clone(), tensor_stats(tensor), hashed(tensor)))
        return result


def hashed(tensor: Tensor) -> int:
    """The hash as a number."""
    return int(position_hash(tensor))


def setup_of(model: nn.Module, step: Callable[[], Any]) -> Setup:
    """What runs one step."""
    return Setup(step, model, (), SourceStacks(), pass_number=False)


@pytest.fixture
def setup() -> Setup:
    """A step of `Views` with a backward."""
    model, x = Views(), torch.randn(3, 4)
    return setup_of(model, lambda: model(x).backward())


def test_what_views_share_is_what_each_of_them_holds(setup: Setup) -> None:
    """Statistics, kept values and hashes are those of an observer that looks at all alone."""
    from fi_notebook.engine.steps import StepClock

    watch = Watch(setup.model, StepClock(setup.model, one_step=True), setup.sources)
    alone = Everything()
    observed(setup, 0, Interceptor(watch, [alone]))
    setup.model.zero_grad()
    result = run_step(setup, 0, store=ValueStore(1 << 20))
    assert result.error is None
    trace = result.recorder.trace({}, lambda _site: None)
    assert len(trace) == len(alone.seen)
    for kept in result.kept.values():
        tensor, stats, number = alone.seen[kept.row]
        assert kept.whole is not None
        assert torch.equal(kept.whole, tensor), trace.site(kept.row)
        if trace.site_columns["nan"][kept.row] >= 0:
            for name in STATISTICS:
                found = trace.site_columns[name][kept.row]
                assert found == pytest.approx(getattr(stats, name), rel=1e-12, abs=1e-12)
            assert trace.site_columns["hash"][kept.row] == number


def test_views_take_no_memory(setup: Setup) -> None:
    """Each of them lies in what was kept of its base; `used` counts that once."""
    result = run_step(setup, 0, store=ValueStore(1 << 20))
    views = [kept for kept in result.kept.values() if kept.base is not None]
    assert len(views) > 5
    for kept in views:
        assert kept.base is not None
        assert kept.held is not None
        whole = result.kept[kept.base.key].held
        assert whole is not None
        assert whole.untyped_storage().data_ptr() == kept.held.untyped_storage().data_ptr()


def test_hashes_of_what_is_kept_wait(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A golden run takes none; the first look at the column takes them all, once."""
    result = run_step(setup, 0, store=ValueStore(1 << 20))
    trace = result.recorder.trace({}, lambda _site: None)
    first = trace.site_columns["hash"]
    assert np.count_nonzero(first) > 20
    monkeypatch.setattr(looks, "read_back", None)
    assert trace.site_columns["hash"] is first


def test_what_is_equal_has_the_golden_statistics_and_hash(setup: Setup) -> None:
    """Golden against golden: the columns are the same, though nothing was summarised."""
    golden = kept_run(setup)
    trace = golden.recorder.trace({}, lambda _site: None)
    setup.model.zero_grad()
    again = run_step(setup, 0, golden=golden.kept)
    other = again.recorder.trace({}, golden=trace)
    for name in (*STATISTICS, "hash"):
        assert np.array_equal(
            trace.site_columns[name], other.site_columns[name], equal_nan=name in STATISTICS[:5]
        ), name


def kept_run(setup: Setup) -> StepResult:
    """A golden run with everything kept."""
    setup.model.zero_grad()
    return run_step(setup, 0, store=ValueStore(1 << 20))


def test_a_write_that_no_call_made_is_seen_by_its_version() -> None:
    """A parameter that is written between two views of it by code that hides from modes."""
    from torch.utils._python_dispatch import _disable_current_modes

    model = nn.Linear(3, 3)

    def step() -> None:
        first = model.weight.t().sum()
        with _disable_current_modes(), torch.no_grad():
            model.weight.add_(1)
        (first + model.weight.t().sum() + model(torch.ones(1, 3)).sum()).backward()

    result = run_step(setup_of(model, step), 0, store=ValueStore(1 << 20))
    views = [kept.whole for key, kept in result.kept.items() if key[0] == "t"][:2]
    assert views[0] is not None
    assert views[1] is not None
    assert torch.allclose(views[1] - views[0], torch.ones(3, 3))


def test_memory_of_others_is_always_looked_at() -> None:
    """numpy writes a batch between two views of it: nothing tells, so nothing is shared."""
    model, array = nn.Linear(3, 3), np.zeros((1, 3), dtype=np.float32)
    batch = torch.from_numpy(array)

    def step() -> None:
        first = batch.view(3).sum()
        array[:] = 5
        (first + batch.view(3).sum() + model(batch).sum()).backward()

    result = run_step(setup_of(model, step), 0, store=ValueStore(1 << 20))
    views = [kept.whole for key, kept in result.kept.items() if key[0] == "view"][:2]
    assert [view.tolist() for view in views if view is not None] == [[0, 0, 0], [5, 5, 5]]


def test_what_shows_the_same() -> None:
    """A transposed view has all elements of its base in another order, a row some of them."""
    makers, whole = Makers(), torch.arange(6.0).reshape(2, 3)
    made = Output(whole, 0, None, FUNCTIONAL)
    makers.note(made, 0)
    makers.see(made, 0, [])
    turned = makers.shown(Output(whole.t(), 0, None, VIEW), [whole])
    flat = makers.shown(Output(whole.view(6), 0, None, VIEW), [whole])
    row = makers.shown(Output(whole[1], 0, None, VIEW), [whole])
    assert turned is not None
    assert (turned.permuted, turned.alike) == (True, False)
    assert flat is not None
    assert (flat.permuted, flat.alike) == (True, True)
    assert row is not None
    assert (row.start, row.permuted) == (3, False)
    makers.note(Output(whole, 0, None, IN_PLACE), 1)
    assert makers.shown(Output(whole.t(), 0, None, VIEW), [whole]) is None


def test_views_of_what_differs_are_as_far(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transposed view of a struck sum: measured once, and as if each were measured alone."""
    from fi_notebook.core.fault import FaultPlan

    struck = {"target": "add*1:0", "model": "scale", "parameters": {"factor": 1.5}}
    plan = FaultPlan.load({"version": 2, "faults": [struck]}).faults
    golden, found = kept_run(setup), []
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(looks.Looks, "_measured_before", lambda *_: None)
        setup.model.zero_grad()
        run = run_step(setup, 0, golden=golden.kept, plan=plan)
        found.append({row: tuple(one) for row, (_, one) in run.recorder._looks.measures.items()})
    assert sum(not one[0] for one in found[0].values()) > 5
    assert str(found[0]) == str(found[1])
