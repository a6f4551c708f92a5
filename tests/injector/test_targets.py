"""What a target chooses: calls, outputs, overloads, namespaces, lists, phases, lines."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import bits, lines, plan, sites


class Outputs(nn.Module):
    """Calls of every kind: overloads, several outputs, a list, a call in the root."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        """Two adds of different overloads, a norm with three outputs, a split."""
        x = self.norm(self.fc(x)) + 1.0
        first, second = x.split(2, dim=1)
        return torch.add(first * 2.0, second)


def _case() -> tuple[Outputs, Tensor]:
    with models.seeded(0):
        return Outputs(), torch.randn(3, 4)


def _struck(config: dict[str, Any]) -> Injector:
    model, x = _case()
    with Injector(config, model=model) as injector:
        model(x).sum().backward()
    return injector


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("add", ["add*1:0", "add*2:0"]),
        ("aten::add", ["add*1:0", "add*2:0"]),
        ("add*2", ["add*2:0"]),
        ("add*2:0", ["add*2:0"]),
        ("add.Tensor", ["add*1:0", "add*2:0"]),
        ("add.Tensor*2", ["add*2:0"]),
        ("add.Scalar*2", []),
        ("native_layer_norm", [f"native_layer_norm*1:{n}" for n in range(3)]),
        ("native_layer_norm*1", [f"native_layer_norm*1:{n}" for n in range(3)]),
        ("native_layer_norm*1:2", ["native_layer_norm*1:2"]),
        ("split*1:0[1]", ["split*1:0[1]"]),
        ("split", ["split*1:0[0]", "split*1:0[1]"]),
        ("native_layer_norm_backward*1:0", ["native_layer_norm_backward*1:0"]),
        ("add*3", []),
        ("native_layer_norm*1:7", []),
    ],
)
def test_a_target_chooses(target: str, expected: list[str]) -> None:
    """Every call, one call, one output, one overload, one item of a list."""
    injector = _struck(plan(target))
    assert [site for site, _ in sites(injector)] == expected
    assert bool(injector.not_injected) != bool(expected)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("add*3", "asked for call 3 of add, 2 were made"),
        ("add.Scalar*2", "add*2 is overload 'Tensor', not 'Scalar'"),
        ("adddmm", "no call of 'adddmm' was made in any step; did you mean 'addmm'"),
        (
            "fc",
            "no call of 'fc' was made in any step; 'fc' is a module: name an operator",
        ),
        (
            "native_layer_norm*1:7",
            "asked for 'native_layer_norm*1:7'; the last output of that call is 2",
        ),
        ("split*1:0[5]", "asked for 'split*1:0[5]'; the last output of that call is 0[1]"),
    ],
)
def test_what_chooses_nothing_says_why(target: str, reason: str) -> None:
    """The reason names what there is."""
    (missed,) = _struck(plan(target)).not_injected
    assert missed.reason.startswith(reason)


def test_packets_are_counted_whatever_the_overload_and_scope() -> None:
    """sum*1 outside the model and the sums of backward are one count, scope or not."""
    config = plan("sum", modules=["fc"], steps=[0])
    assert [site for site, _ in sites(_struck(config))] == ["sum*2:0"]  # sum*1 is the loss


def test_several_outputs_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    """A call with three outputs is followed by their types; a list by those of its items."""
    _struck({"version": 2, "modules": [""], "log_steps": [0]})
    told = lines(caplog)
    after = told.index("norm*step0*native_layer_norm*1") + 1
    assert told[after] == "output is tuple, types are Tensor|Tensor|Tensor"
    config = {"version": 2, "modules": [""], "log_steps": [0], "ignore": []}
    caplog.clear()
    _struck(config)
    told = lines(caplog)
    assert (
        told[told.index("(model)*step0*split*1") + 1] == "output is list, types are Tensor|Tensor"
    )


def test_a_value_is_what_it_should_be() -> None:
    """Times 1.5, the preset light: the output of the model is 1.5 times the clean one's."""
    model, x = _case()
    clean = model(x)
    with Injector(plan("add*2:0"), model=model):
        struck = model(x)
    assert bits(struck) == bits(clean * 1.5)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("light", 1.5), ("heavy", 100.0)],
)
def test_the_presets_scale(model: str, expected: float) -> None:
    """The preset light is 1.5 times, heavy 100 times."""
    net, x = _case()
    clean = net(x)
    with Injector(plan("add*2:0", model), model=net):
        assert bits(net(x)) == bits(clean * expected)


def test_delete_keeps_three_decimals_and_random_forgets() -> None:
    """The preset delete rounds to 0.001; random forgets the value, and depends on the seed."""
    net, x = _case()
    clean = net(x)
    with Injector(plan("add*2:0", "delete"), model=net):
        assert torch.equal(net(x), (clean.double() * 1000).round().div(1000).float())
    drawn = []
    for _ in range(2):
        with Injector(plan("add*2:0", "random", seed=3), model=net):
            drawn.append(net(x))
    assert bits(drawn[0]) == bits(drawn[1])
    assert not torch.isclose(drawn[0], clean).any()


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("forward", {"forward", "loss"}),
        ("backward", {"backward"}),
        ("both", {"forward", "loss", "backward"}),
        ("optimizer", {"optimizer"}),
        ("recompute", {"recompute"}),
    ],
)
def test_a_direction_chooses_phases(direction: str, expected: set[str]) -> None:
    """The direction both is these two and nothing else; optimizer and recompute are further."""
    case = models.checkpointed()
    ops = ["addmm", "mm", "tanh", "mse_loss", "mse_loss_backward", "add_", "t"]
    config = {
        "targets": ops,
        "steps": [0],
        "error_type": "light",
        "direction": direction,
    }
    with Injector(config, model=case.model) as injector:
        case.step()
    assert {i.site.phase for i in injector.injections} == expected


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        (["layer.layers.0"], ["addmm*1:0"]),
        (["layer"], [f"addmm*{n}:0" for n in range(1, 6)]),
        (["layer.layers"], [f"addmm*{n}:0" for n in range(1, 5)]),
        (["layer.layers.[02]"], ["addmm*1:0", "addmm*2:0"]),
        (["lay*"], [f"addmm*{n}:0" for n in range(1, 6)]),
        ([""], [f"addmm*{n}:0" for n in range(1, 7)]),
        (["out"], ["addmm*6:0"]),
        (["layer.out", "out"], ["addmm*5:0", "addmm*6:0"]),
        ([], []),
        (["loss function"], []),
        (["laier", "out"], ["addmm*6:0"]),
    ],
)
def test_modules_choose(modules: list[str], expected: list[str]) -> None:
    """Any name of named_modules with all below it, globs, the root; an empty list is nothing."""
    case = models.seed_mlp()
    with Injector(plan("addmm", modules=modules), model=case.model) as injector:
        case.step()
    assert [site for site, _ in sites(injector)] == expected


def test_an_unknown_module_is_reported_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The near match is named, and the other module is struck."""
    case = models.seed_mlp()
    with Injector(plan("addmm", modules=["layer.lyers", "out"]), model=case.model) as injector:
        case.step()
    assert sites(injector) == [("addmm*6:0", 0)]
    assert [r.levelname for r in caplog.records if "layer.lyers" in r.getMessage()] == ["ERROR"]
    assert "did you mean 'layer.layers'" in lines(caplog)[0]


def test_calls_of_the_root_are_chosen() -> None:
    """Calls made in the root's own forward belong to it, not to a child module."""
    injector = _struck(plan("mul", modules=[""]))
    assert [i.site.module for i in injector.injections][:1] == [""]
    assert str(injector.injections[0].site) == "mul*1:0"


@pytest.mark.parametrize("name", ["fc", "module.fc", "_orig_mod.fc"])
def test_prefixes_of_wrappers_may_be_left_out_or_given(name: str) -> None:
    """A filter made for a wrapped model fits the bare one."""
    assert [s for s, _ in sites(_struck(plan("addmm", modules=[name])))] == ["addmm*1:0"]


def test_a_wrapped_model_answers_to_the_bare_names() -> None:
    """The filter fc fits module.fc of a wrapped model."""
    model, x = _case()

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = model

        def forward(self, x: Tensor) -> Tensor:
            return self.module(x)

    wrapped = Wrapper()
    with Injector(plan("addmm", modules=["fc"]), model=wrapped) as injector:
        wrapped(x)
    assert [i.site.module for i in injector.injections] == ["module.fc"]


def test_a_shared_module_answers_to_all_its_names() -> None:
    """The second name of the shared Linear chooses its three calls."""
    case = models.shared_module()
    config = plan("addmm", modules=["again"], direction="forward")
    with Injector(config, model=case.model) as injector:
        case.step()
    assert [(i.site.module, i.site.module_call) for i in injector.injections] == [
        ("first", 1),
        ("first", 2),
        ("first", 3),
    ]


def test_the_loss_function_is_chosen_by_its_name() -> None:
    """modules: ["loss function"] chooses the loss, forward and backward, told apart by phase."""
    case = models.mlp()
    config = {
        "targets": ["mse_loss", "mse_loss_backward", "addmm"],
        "modules": ["loss function"],
        "steps": [0],
        "error_type": "light",
    }
    with Injector(config, model=case.model) as injector:
        case.step()
    assert [(str(i.site), i.site.phase) for i in injector.injections] == [
        ("mse_loss*1:0", "loss"),
        ("mse_loss_backward*1:0", "backward"),
    ]


def test_the_loss_function_is_always_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever modules, lines and direction are chosen, its calls are in the log."""
    case = models.mlp()
    config = {
        "targets": ["addmm"],
        "modules": ["0"],
        "code": ["nowhere.py[1]"],
        "steps": [0],
        "error_type": "light",
        "direction": "forward",
    }
    with Injector(config, model=case.model):
        case.step()
    assert [line for line in lines(caplog) if "*step" in line] == [
        "loss function*step0*mse_loss*1",
        "loss function*step0*mse_loss_backward*1",
    ]


FILE = __file__.replace("\\", "/")
NAME = FILE.rsplit("/", 1)[-1]


@pytest.mark.parametrize(
    "form",
    [
        "{name}[{line}]",
        "{file}[{line}]",
        "./{name}[{line}]",
        "{name}:{line}",
        "{name}",
        ".\\{name}[{line}]",
        "injector\\{name}[{line}]",
        "injector/{name}[{line}]",
    ],
)
def test_a_line_of_code_chooses(form: str) -> None:
    """Absolute, relative, bare, Windows separators: any frame of the stack."""
    case = models.mlp()
    line = sys._getframe().f_lineno + 3
    config = plan("addmm", code=[form.format(name=NAME, file=FILE, line=line)])
    with Injector(config, model=case.model) as injector:
        case.model(case.x)
        case.model(case.x)
    expected = ["addmm*1:0", "addmm*2:0"]
    found = [site for site, _ in sites(injector)]
    assert found == expected + (["addmm*3:0", "addmm*4:0"] if form == "{name}" else [])


def test_a_frame_of_windows_is_chosen_by_either_separator() -> None:
    """A frame whose file has backslashes answers to slashes and to backslashes."""
    from fi_notebook.core.match import CodeFilter
    from fi_notebook.core.site import Frame

    frame = Frame("C:\\Users\\me\\Inject\\run.py", 33, "main")
    for text in ("run.py[33]", "Inject\\run.py[33]", "Inject/run.py[33]", frame.file + "[33]"):
        assert CodeFilter.parse(text).matches([frame]), text
    assert not CodeFilter.parse("n.py[33]").matches([frame])


def test_modules_and_code_must_both_fit() -> None:
    """The intersection of a module and a line; another line of it is nothing."""
    case = models.mlp()
    line = sys._getframe().f_lineno + 4
    both = plan("addmm", code=[f"{NAME}[{line}]"], modules=["2"])
    other = plan("addmm", code=[f"{NAME}[{line + 99}]"], modules=["2"])
    with Injector(both, model=case.model) as first, Injector(other, model=case.model) as second:
        case.model(case.x)
    assert (sites(first), sites(second)) == ([("addmm*2:0", 0)], [])


def test_backward_answers_to_both_its_lines() -> None:
    """The mm of the first layer's weight: its forward's line and that of backward()."""
    for offset in (4, 5):
        case = models.mlp()
        line = sys._getframe().f_lineno + offset
        config = plan("mm", code=[f"{NAME}[{line}]"], modules=["0"], direction="backward")
        with Injector(config, model=case.model) as injector:
            # the next two lines are meant
            out = case.model(case.x)
            out.sum().backward()
        assert [site for site, _ in sites(injector)] == ["mm*3:0"], offset


def test_ignored_calls_are_counted_and_struck_only_when_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Here t is ignored here: not logged, its numbers go on; named in a target it is struck."""
    case = models.mlp()
    config = {"version": 2, "modules": [""], "log_steps": [0], "ignore": ["t", "addmm"]}
    with Injector(config, model=case.model):
        case.step()
    assert not [line for line in lines(caplog) if "*t*" in line or "*addmm*" in line]
    caplog.clear()
    named = config | plan("t*2:0", "zero")
    with Injector(named, model=case.model) as injector:
        case.step()
    assert sites(injector) == [("t*2:0", 0)]
    assert "2*step0*t*2" in lines(caplog)


def test_detach_and_the_like_are_ignored_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """The stated default: no detach, view, factory or profiler call is logged."""
    case = models.cnn()
    with Injector({"version": 2, "modules": [""], "log_steps": "0-"}, model=case.model):
        case.step()
    ops = {line.split("*")[2] for line in lines(caplog) if "*step" in line}
    assert ops.isdisjoint({"detach", "view", "empty_like", "zeros_like", "ones_like"})
    assert {"convolution", "relu", "native_batch_norm", "addmm"} <= ops


@pytest.mark.parametrize(
    ("verbosity", "expected"),
    [
        ("quiet", ["injecting fault to addmm*1:0"]),
        (
            "normal",
            [
                "0*step0*t*1",
                "0*step0*addmm*1",
                "injecting fault to addmm*1:0",
                "loss function*step0*mse_loss*1",
                "loss function*step0*mse_loss_backward*1",
            ],
        ),
    ],
)
def test_how_much_is_said(
    caplog: pytest.LogCaptureFixture, verbosity: str, expected: list[str]
) -> None:
    """A quiet one says injections only, normal the calls in scope as well."""
    case = models.mlp()
    config = plan("addmm*1", modules=["0"], phases=["forward"])
    config |= {"modules": ["0"], "phases": ["forward"]}
    with Injector(config, model=case.model, verbosity=verbosity):
        case.step()
    assert [line for line in lines(caplog) if "*" in line] == expected


def test_verbose_says_shapes_and_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Below each call stand its dtype, shape and source line."""
    case = models.mlp()
    config = {"version": 2, "modules": ["0"], "phases": ["forward"], "log_steps": [0]}
    with Injector(config, model=case.model, verbosity="verbose"):
        case.step()
    told = lines(caplog)
    after = told[told.index("0*step0*addmm*1") + 1]
    assert "torch.float32 (4, 6)" in after
    assert "models.py:" in after


def test_nothing_is_logged_to_the_root_logger(caplog: pytest.LogCaptureFixture) -> None:
    """Every record is of the logger fi_notebook, which has no handler of its own."""
    case = models.mlp()
    with Injector(plan("addmm"), model=case.model):
        case.step()
    assert {record.name for record in caplog.records} == {"fi_notebook"}
    assert not logging.getLogger("fi_notebook").handlers


def test_empty_targets_log_only(caplog: pytest.LogCaptureFixture) -> None:
    """The first form with empty targets logs the calls of its modules and strikes nothing."""
    case = models.mlp()
    config = {"targets": [], "modules": ["2"], "steps": [0, 2], "direction": "forward"}
    with Injector(config, model=case.model) as injector:
        for _ in range(4):
            case.step()
    calls = [line for line in lines(caplog) if line.startswith("2*step")]
    assert calls == [f"2*step{s}*{op}*2" for s in (0, 2) for op in ("t", "addmm")]
    assert not injector.injections


def test_the_structure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Names of modules stand in the first listed step only."""
    case = models.mlp()
    with Injector({"targets": [], "steps": [1, 2]}, model=case.model):
        for _ in range(4):
            case.step()
    titles = [line for line in lines(caplog) if line.startswith("-----")]
    assert titles == ["----------module names of the model----------"]
    steps = [line for line in lines(caplog) if line.startswith("current step")]
    assert steps == [f"current step {s}. Restart counting" for s in (1, 2)]


def test_a_module_as_operator_is_reported_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Before any step, where no operator has that name: ``relu`` may be one, ``fc`` is none."""
    model = nn.ModuleDict({"fc": nn.Linear(2, 2), "relu": nn.ReLU()})
    for target in ("relu", "fc"):
        Injector(plan(target), model=model).close()
    said = [line for line in lines(caplog) if "is a module" in line]
    assert said == ["f1: no operator 'fc'; 'fc' is a module: name an operator, with modules='fc'"]


def test_modules_that_do_not_exist_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """In one sentence, each with what may have been meant, and the faults that have no other."""
    model = nn.ModuleDict({"layer": nn.Linear(2, 2), "out": nn.Linear(2, 2)})
    more = [
        {"id": name, "target": "mm", "model": "zero", "modules": modules}
        for name, modules in (("f1", ["lyer"]), ("f2", ["lyer", "ModuleDict"]), ("f3", ["out"]))
    ]
    with Injector({"version": 2, "faults": more}, model=model) as injector:
        assert [missed.fault for missed in injector.not_injected] == ["f1", "f2", "f3"]
    assert lines(caplog)[0] == (
        "some of the target modules: lyer (did you mean 'layer'?), ModuleDict (that is the whole "
        "model, which is '') do not exist in the model. Check the modules. Nothing is left to "
        "strike for f1, f2."
    )
    assert [line for line in lines(caplog)[1:] if "lyer" in line] == []
