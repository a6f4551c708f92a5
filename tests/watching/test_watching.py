"""A watch in a person's own training loop, without any screen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import fi_notebook as fi
from fi_notebook.core.stats import STATISTICS
from fi_notebook.engine.reading import MOST_SITES
from fi_notebook.errors import SessionError, SiteError
from fi_notebook.watching import Watching
from tests import models


class Doubler(nn.Module):
    """One parameter ``w``; the forward multiplies it with the input, then relu."""

    def __init__(self, w: list[float]) -> None:
        """Set the parameter."""
        super().__init__()
        self.w = nn.Parameter(torch.tensor(w))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """relu(w * x)."""
        return torch.relu(self.w * x)


def trained(model: nn.Module, steps: int, lr: float = 0.5, scale: float = 2.0) -> None:
    """SGD on the sum of the outputs; where relu lets through, d(sum)/dw = scale."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.full((2,), scale)).sum().backward()
        optimizer.step()


def values(watch: Watching, site: str, statistic: str) -> list[float]:
    """One statistic of one site, step by step."""
    return watch.current.series[site].statistic(statistic).tolist()


def faulty(target: str, steps: Any = 1, **parts: Any) -> dict[str, Any]:
    """A plan that sets a whole tensor to 7."""
    fault = {"target": target, "model": "set", "parameters": {"value": 7.0}, "steps": steps}
    return {"version": 2, "verbosity": "quiet", "faults": [fault | parts]}


class TestReading:
    """What is read, and when."""

    def test_outputs_parameters_gradients_and_state(self) -> None:
        """w = (3, 4), x = 2, lr = 0.5: relu gives (6, 8), of norm 10; the gradient is (2, 2),
        of norm sqrt(8); a step takes 1 from each, so the next relu gives (4, 6).
        """
        model = Doubler([3.0, 4.0])
        with Watching(model, ["relu*1:0", "param:w", "grad:w"]) as watch:
            trained(model, 2)
        assert values(watch, "relu*1:0", "norm") == [10.0, pytest.approx(52**0.5)]
        assert values(watch, "param:w", "norm") == [5.0, pytest.approx(13**0.5)]
        assert values(watch, "grad:w", "norm") == pytest.approx([8**0.5, 8**0.5])
        assert watch.current.series["grad:w"].steps.tolist() == [0, 1]

    def test_state_is_read_before_its_optimizer_steps(self) -> None:
        """Momentum is there from the second step on: after step 0 it is the gradient, (2, 2)."""
        model = Doubler([3.0, 4.0])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        with Watching(model, "state:w.momentum_buffer") as watch:
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.full((2,), 2.0)).sum().backward()
                optimizer.step()
        series = watch.current.series["state:w.momentum_buffer"]
        assert series.steps.tolist() == [1]
        assert series.statistic("max").tolist() == [2.0]

    @pytest.mark.parametrize("evaluations", [1, 3])
    def test_a_gradient_that_a_closure_makes_is_read_in_its_step(self, evaluations: int) -> None:
        """It is x: 3, 5 and 7 in three steps, the last included; of several evaluations the first.

        LBFGS reads one gradient more often, which is x - 1 and x - 2 then.
        """
        model = Doubler([2.0])
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=evaluations, lr=1e-3, tolerance_change=0
        )
        with Watching(model, "grad:w") as watch:
            for x in (3.0, 5.0, 7.0):
                inputs = iter((x, x - 1, x - 2))

                def closure(inputs: Iterator[float] = inputs) -> torch.Tensor:
                    optimizer.zero_grad()
                    loss = model(torch.tensor([next(inputs)])).sum()
                    loss.backward()
                    return loss

                optimizer.step(closure)
                assert list(inputs) == [x - 1, x - 2][evaluations - 1 :]
        assert watch.current.series["grad:w"].steps.tolist() == [0, 1, 2]
        assert values(watch, "grad:w", "max") == [3.0, 5.0, 7.0]

    def test_a_target_without_number_reads_every_call(self) -> None:
        """The transformer's layer norms are called three times a step; each has its series."""
        case = models.transformer(seed=1)
        with Watching(case.model, "native_layer_norm") as watch:
            case.step()
            case.step()
        found = [name for name in watch.current.series if name.endswith(":0")]
        golden = fi.Session(case.step, model=case.model).trace()
        assert found == [str(s) for s in golden.find("native_layer_norm") if s.output == 0]

    @pytest.mark.parametrize("maker", [models.mlp, models.cnn, models.checkpointed])
    def test_statistics_are_those_of_a_trace(self, maker: Callable[..., models.Case]) -> None:
        """Each output of a traced step, backward and update included, read while training."""
        case = maker(seed=2)
        golden = fi.Session(case.step, model=case.model, optimizer=case.optimizer).trace()
        table = golden.to_pandas().set_index("site")
        counted = [s for s in golden.sites if s.counted and s.op in ("addmm", "mm", "relu")]
        with Watching(case.model, counted) as watch:
            case.step()
        assert set(watch.current.series) == set(map(str, counted))
        for name, series in watch.current.series.items():
            row = table.loc[name]
            np.testing.assert_array_equal(series.values[0], row[list(STATISTICS)].to_numpy(float))
            assert (series.site.phase, series.site.module) == (row["phase"], row["module"])

    def test_later_steps_are_counted_alike(self) -> None:
        """From the second step on calls are no more placed, and the same ones are read."""
        case = models.checkpointed(seed=2)
        golden = fi.Session(case.step, model=case.model, optimizer=case.optimizer).trace()
        chosen = [s for s in golden.sites if s.counted and s.op in ("addmm", "mm")]
        with Watching(case.model, chosen) as watch:
            for _ in range(3):
                case.step()
        assert {tuple(s.steps.tolist()) for s in watch.current.series.values()} == {(0, 1, 2)}

    def test_filters_choose_by_module_and_phase(self) -> None:
        """Of the calls of mm, those of the backward of layer 0; in every step."""
        case = models.mlp(seed=1)
        with Watching(case.model, "mm", modules="0", phases="backward") as watch:
            case.step()
            case.step()
        found = watch.current.series.values()
        assert {(s.site.module, s.site.phase) for s in found} == {("0", "backward")}
        assert all(s.steps.tolist() == [0, 1] for s in found)

    def test_steps_thin_what_is_read(self) -> None:
        """Every third step, from step 1 on: 1 and 4 of six."""
        case = models.mlp(seed=1)
        with Watching(case.model, ["relu*1:0", "grad:0.weight"], steps="1-:3") as watch:
            for _ in range(6):
                case.step()
        assert {tuple(s.steps.tolist()) for s in watch.current.series.values()} == {(1, 4)}

    def test_a_sparse_gradient_is_not_said_to_be_finite(self) -> None:
        """It holds a NaN: nothing was read, which a dash and a note say."""
        net = torch.nn.EmbeddingBag(4, 2, sparse=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        with Watching(net, "grad:weight") as watch:
            net(torch.tensor([[0, 1]])).sum().backward()
            assert net.weight.grad is not None
            net.weight.grad._values()[0, 0] = float("nan")
            optimizer.step()
        assert np.isnan(watch.current.series["grad:weight"].nonfinite).all()
        assert watch.alerts == ()
        row = watch.text().splitlines()[2].split()
        assert (row[0], row[-1]) == ("grad:weight", "–")
        assert watch.text().splitlines()[-1] == (
            "grad:weight was not read: statistics are not taken of sparse, nested, quantized and "
            "meta tensors"
        )

    def test_micro_batches_belong_to_one_step(self) -> None:
        """Two forwards a step: the second relu of a step has a series of its own."""
        case = models.mlp(seed=1)
        with Watching(case.model, "relu", micro_batch_per_step=2) as watch:
            for _ in range(3):
                case.forward_backward()
                case.step()
        assert list(watch.current.series) == ["relu*1:0", "relu*2:0", "relu*3:0", "relu*4:0"]
        assert watch.current.last_step == 2

    def test_validation_takes_no_step(self) -> None:
        """A forward in eval mode between the steps is not read."""
        case = models.mlp(seed=1)
        with Watching(case.model, "relu*1:0") as watch:
            for _ in range(2):
                case.step()
                case.model.eval()
                case.model(case.x * 9)
                case.model.train()
        assert watch.current.series["relu*1:0"].steps.tolist() == [0, 1]

    def test_the_last_step_is_there_without_an_optimizer(self) -> None:
        """Where a person updates by hand, the last step is read when it is asked for."""
        model = Doubler([3.0, 4.0])
        with Watching(model, "relu*1:0") as watch:
            model(torch.full((2,), 2.0)).sum().backward()
            assert values(watch, "relu*1:0", "norm") == [10.0]

    def test_at_most_so_many_sites_are_read(self) -> None:
        """One more call than there may be sites: the last is left out, and said."""
        model = Doubler([1.0])
        with Watching(model, "relu") as watch:
            for _ in range(MOST_SITES + 1):
                torch.relu(model.w)  # outside the model, after its first forward
                model(torch.ones(1)).sum()
        assert len(watch.current.series) == MOST_SITES
        assert watch.notes == (f"only the first {MOST_SITES} sites are read",)


class TestSaying:
    """What cannot be read is refused, or reported."""

    @pytest.mark.parametrize(
        ("sites", "options", "message"),
        [
            ("relu*0", {}, "numbered from 1"),
            ("param:1.weight", {}, "no param '1.weight'; did you mean '2.weight'"),
            ("rleu", {}, "no operator 'rleu'; did you mean 'relu'"),
            ("relu", {"modules": "layer.0"}, "no module 'layer.0'"),
            ("relu", {"phases": "foreward"}, "no phase 'foreward'; did you mean 'forward'"),
            ([], {}, "sites is empty"),
        ],
    )
    def test_what_can_be_nothing_is_refused(
        self, sites: Any, options: dict[str, Any], message: str
    ) -> None:
        """By name, with the nearest there is; and no hook is left on."""
        with pytest.raises(SiteError, match=message):
            Watching(models.mlp(seed=1).model, sites, **options)

    def test_other_types_are_refused(self) -> None:
        """A model that is none, and a golden run that is none."""
        with pytest.raises(TypeError, match=r"model is int; expected a torch\.nn\.Module"):
            Watching(3, "relu")  # type: ignore[arg-type]  # that is the subject
        with pytest.raises(TypeError, match="golden holds dict; expected what keep_as_golden"):
            Watching(models.mlp(seed=1).model, "relu", golden={})

    def test_what_was_never_met_is_told(self) -> None:
        """The ninth relu of two, the second loss of one, and an operator that is not called."""
        case = models.mlp(seed=1)
        with Watching(case.model, ["relu*9:0", "tanh", "relu*1:0", "mse_loss*2:0"]) as watch:
            case.step()
        assert watch.unread == {
            "relu*9:0": "asked for call 9 of relu, 2 were made",
            "tanh": "no call of 'tanh' was made",
            "mse_loss*2:0": "asked for call 2 of mse_loss, 1 was made",
        }
        assert "relu*9:0 was not read: asked for call 9 of relu" in watch.text()
        with Watching(case.model, "mm", modules=["1"], phases=["forward"]) as watch:
            case.step()
        assert watch.unread == {
            "mm": "no call of 'mm' is in phase 'forward': they are in 'backward'; none is in "
            "module '1': they are in '2', '0'"
        }

    def test_an_overload_that_was_not_called_is_told_with_those_that_were(self) -> None:
        """As a filter is that leaves nothing, alone or beside one, also of one call."""
        case = models.mlp(seed=1)
        with Watching(case.model, ["addmm.out", "addmm.out*2:0", "relu*1:0"]) as watch:
            case.step()
            case.step()
        said = "is of overload 'out': they are of 'default'"
        assert watch.unread == {
            "addmm.out": f"no call of 'addmm' {said}",
            "addmm.out*2:0": f"no call of 'addmm*2' {said}",
        }
        with Watching(case.model, "addmm.out", phases=["backward"]) as watch:
            case.step()
        assert watch.unread == {
            "addmm.out": f"no call of 'addmm' {said}; none is in phase 'backward': they are in "
            "'forward'"
        }


class TestGolden:
    """Golden runs, and the run over them."""

    def test_the_current_run_is_held_against_golden_ones(self) -> None:
        """The second training begins from other weights: it leaves the golden run at once."""
        model = Doubler([3.0, 4.0])
        with Watching(model, "relu*1:0") as watch:
            trained(model, 2)
            golden = watch.keep_as_golden()
            with torch.no_grad():
                model.w.copy_(torch.tensor([3.0, 4.0]))
            trained(model, 1)
            model.w.data[0] = 9.0
            trained(model, 1)
        assert (golden.last_step, watch.current.last_step) == (1, 1)
        assert values(watch, "relu*1:0", "max") == [8.0, 18.0]  # 2 * 4, then 2 * 9
        row = watch.text("max").splitlines()[2].split()
        assert row[-4:] == ["18", "6", "1", "0"]  # value, golden (2 * 3), left at step 1, no NaN

    def test_several_golden_runs_make_a_band(self) -> None:
        """Two golden runs, of 6 and 8; 7 is within, 9 is not."""
        runs = []
        for weight in (3.0, 4.0):
            model = Doubler([weight])
            with Watching(model, "relu*1:0") as watch:
                trained(model, 1)
            runs.append(watch.current)
        for weight, left in ((3.5, "–"), (4.5, "0")):
            model = Doubler([weight])
            with Watching(model, "relu*1:0", golden=runs) as watch:
                trained(model, 1)
            row = watch.text("max").splitlines()[2]
            assert "6 to 8" in row
            assert row.split()[-2] == left

    def test_a_table_has_every_run(self) -> None:
        """Two sites, two golden steps and one current one: 6 rows, with the statistics."""
        model = Doubler([3.0, 4.0])
        with Watching(model, ["relu*1:0", "param:w"]) as watch:
            trained(model, 2)
            watch.keep_as_golden()
            trained(model, 1)
        table = watch.to_pandas()
        assert table.groupby("run").size().to_dict() == {"golden": 4, "training": 2}
        assert list(table.columns)[:4] == ["run", "step", "site", "phase"]
        first = table[(table.run == "golden") & (table.site == "relu*1:0")].iloc[0]
        assert (first.step, first.norm, first.zeros) == (0, 10.0, 0)

    def test_nothing_recorded_is_no_golden_run(self) -> None:
        """It says what to do first."""
        with (
            Watching(models.mlp(seed=1).model, "relu") as watch,
            pytest.raises(SessionError, match="train first"),
        ):
            watch.keep_as_golden()


class TestAlerts:
    """NaN and Inf."""

    def test_an_alert_for_each_stretch(self) -> None:
        """Inf in step 1, finite in step 2, NaN from step 3 on: two alerts."""
        model = Doubler([1.0, 1.0])
        with Watching(model, "mul*1:0") as watch:
            for value in (1.0, torch.inf, 1.0, torch.nan, torch.nan):
                with torch.no_grad():
                    model.w.copy_(torch.tensor([1.0, value]))
                trained(model, 1, lr=0.0)
        told = ["step 1: mul*1:0 holds 1 +Inf", "step 3: mul*1:0 holds 1 NaN"]
        assert list(map(str, watch.alerts)) == told
        assert all(line in watch.text() for line in told)


@contextmanager
def both(model: nn.Module, plan: dict[str, Any], sites: Any, first: str) -> Iterator[Any]:
    """A watch and an injector, attached in this order."""
    with ExitStack() as stack:
        made: dict[str, Any] = {}
        makers: dict[str, Callable[[], Any]] = {
            "watch": lambda: Watching(model, sites),
            "injector": lambda: fi.Injector(plan, model=model),
        }
        for name in sorted(makers, key=lambda name: name != first):
            made[name] = stack.enter_context(makers[name]())
        yield made["watch"]


class TestWithInjector:
    """Both at once, whichever was attached first."""

    @pytest.mark.parametrize("first", ["watch", "injector"])
    @pytest.mark.parametrize(
        ("target", "site"),
        [("relu*1:0", "relu*1:0"), ("param:w", "param:w"), ("grad:w", "grad:w")],
    )
    def test_the_watch_sees_the_fault(self, first: str, target: str, site: str) -> None:
        """The tensor is 7 everywhere in step 1, and what it should be in step 0."""
        model = Doubler([3.0, 4.0])
        with both(model, faulty(target), site, first) as watch:
            trained(model, 3)
        assert values(watch, site, "min")[1] == values(watch, site, "max")[1] == 7.0
        assert values(watch, site, "max")[0] != 7.0

    @pytest.mark.parametrize("first", ["watch", "injector"])
    def test_an_in_place_fault_is_seen(self, first: str) -> None:
        """``add_`` of the optimizer writes the parameter: struck after, and read after that."""
        model = Doubler([3.0, 4.0])
        plan = faulty("_foreach_add_*1", 1)
        with both(model, plan, "_foreach_add_*1", first) as watch:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=True)
            for _ in range(2):
                model(torch.full((2,), 2.0)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert values(watch, "_foreach_add_*1:0[0]", "min") == [2.0, 7.0]

    @pytest.mark.parametrize("first", ["watch", "injector"])
    def test_modes_come_off_in_any_order(self, first: str) -> None:
        """The fault is due in two of five steps, so its mode goes on and off below or above."""
        case = models.mlp(seed=1)
        with both(case.model, faulty("relu*2:0", [1, 3]), "relu*2:0", first) as watch:
            for _ in range(5):
                case.step()
        struck = np.asarray(values(watch, "relu*2:0", "min")) == 7.0
        assert struck.tolist() == [False, True, False, True, False]

    def test_a_persons_own_mode_is_left_where_it_is(self) -> None:
        """FlopCounterMode counts the same flops with a watch within it."""
        case, twin = models.mlp(seed=1), models.mlp(seed=1)
        with Watching(case.model, "relu"), FlopCounterMode(display=False) as counted:
            case.step()
        with FlopCounterMode(display=False) as alone:
            twin.step()
        assert counted.get_total_flops() == alone.get_total_flops()


class _Alone(TorchDispatchMode):
    """Counts calls."""

    made = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count it."""
        self.made += 1
        return func(*args, **(kwargs or {}))


class TestNeutral:
    """A watch changes nothing."""

    @pytest.mark.parametrize("name", list(models.CASES))
    def test_training_has_the_same_bits(self, name: str) -> None:
        """Weights, and the generator, after three watched steps of each model."""
        case, twin = models.CASES[name](seed=4), models.CASES[name](seed=4)
        start = torch.get_rng_state()
        sites = ["addmm", "mm", "relu", "param:*", "grad:*"]
        with Watching(case.model, sites):
            losses = [case.step() for _ in range(3)]
        after = torch.get_rng_state()
        torch.set_rng_state(start)
        assert all(torch.equal(twin.step(), loss) for loss in losses)
        assert torch.equal(torch.get_rng_state(), after)
        pairs = zip(case.model.parameters(), twin.model.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)

    def test_stored_tensors_need_no_mode(self) -> None:
        """Where only a gradient is watched, no dispatch mode is on."""
        case = models.mlp(seed=1)
        with Watching(case.model, "grad:0.weight") as watch:
            case.forward_backward()
            assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
            case.optimizer.step()
        assert len(watch.current.series["grad:0.weight"].steps) == 1

    def test_a_watch_makes_no_call_that_others_see(self) -> None:
        """A person's mode around the step counts as many calls as without the watch."""
        case, twin = models.mlp(seed=1), models.mlp(seed=1)
        with _Alone() as alone:
            twin.step()
        with Watching(case.model, ["relu", "param:*", "grad:*"]), _Alone() as watched:
            case.step()
        assert watched.made == alone.made

    def test_a_session_is_no_training(self) -> None:
        """Its trace and replay are not read, and the steps go on where they were."""
        case = models.mlp(seed=1)
        with Watching(case.model, "relu*1:0") as watch:
            case.step()
            session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
            session.trace()
            session.replay(steps=3)
            case.step()
        assert watch.current.series["relu*1:0"].steps.tolist() == [0, 1]

    def test_a_compiled_model_says_that_it_runs_eagerly(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Read in step 1 alone: compiled before and after, with the same losses."""
        case, twin = models.mlp(seed=1), models.mlp(seed=1)
        compiled = torch.compile(case.model, backend="eager")
        caplog.set_level(logging.WARNING, "fi_notebook")

        def step(model: Any) -> torch.Tensor:
            loss = case.criterion(model(case.x), case.y)
            loss.backward()
            case.optimizer.step()
            case.optimizer.zero_grad()
            return loss.detach()

        with Watching(case.model, "relu*1:0", steps=1) as watch:
            losses = [step(compiled) for _ in range(3)]
        told = [record.getMessage() for record in caplog.records]
        assert told == ["the model is compiled; it runs eagerly in the steps that are watched"]
        assert watch.current.series["relu*1:0"].steps.tolist() == [1]
        assert all(torch.equal(twin.step(), loss) for loss in losses)


class TestLife:
    """Opening and closing."""

    def test_a_watch_of_the_same_tensors_ends_the_older(self) -> None:
        """As where a cell is run again; a watch of others goes on."""
        model = models.mlp(seed=1).model
        first, other = Watching(model, "relu"), Watching(model, "addmm")
        again = Watching(model, "relu")
        assert (first.closed, other.closed, again.closed) == (True, False, False)
        for watch in (first, other, again):
            watch.close()

    def test_a_watch_that_is_closed_so_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """By what it was of, in one line."""
        model = models.mlp(seed=1).model
        with caplog.at_level(logging.INFO, "fi_notebook"):
            first = Watching(model, "relu", steps="0-:10")
            with Watching(model, "relu", steps="0-:10"):
                assert first.closed
        (said,) = caplog.messages
        assert said == (
            "<Watching of Sequential: relu; step -1> is closed: another one of the same tensors "
            "began"
        )

    def test_a_watch_in_other_steps_or_of_another_kind_goes_on(self) -> None:
        """Every tenth step beside every step, and one that sees replays beside both."""
        case = models.mlp(seed=1)
        session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
        with (
            Watching(case.model, "relu", steps="0-:10") as tenth,
            Watching(case.model, "relu") as every,
            session.watch("relu") as replays,
        ):
            assert [tenth.closed, every.closed, replays.closed] == [False, False, False]

    def test_what_was_recorded_outlives_it(self) -> None:
        """Closed twice, it still has its step and draws it."""
        case = models.mlp(seed=1)
        watch = Watching(case.model, "relu*1:0")
        case.step()
        watch.close()
        watch.close()
        case.step()
        assert watch.current.last_step == 0
        assert len(watch.figure().data) == 3  # the run, its crosses, its diamond
        assert repr(watch) == "<Watching of Sequential: relu*1:0; closed>"

    def test_an_exception_in_the_loop_leaves_nothing_on(self) -> None:
        """The block is left with the mode on the stack, in the middle of a step."""
        case = models.mlp(seed=1)
        with (
            pytest.raises(ZeroDivisionError),
            Watching(case.model, "relu"),
        ):
            case.forward_backward().mul_(1 / 0)
        assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def test_a_listener_that_raises_does_not_end_the_training(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Three steps are made and read all the same; each update is told of, and logged."""
    model = Doubler([1.0, 1.0])

    def broken() -> None:
        raise RuntimeError("no")

    with Watching(model, "relu") as watch, caplog.at_level(logging.ERROR, "fi_notebook"):
        watch.subscribe(broken)
        trained(model, steps=3)
        assert watch.current.last_step == 2
        with pytest.raises(TypeError, match="listener is None; expected a callable"):
            watch.subscribe(None)  # type: ignore[arg-type]
    assert "broken failed" in caplog.text
