from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from fi_notebook import magics
from fi_notebook.core.fault import FaultPlan
from fi_notebook.session import Session
from tests.tools import notebooks

SETUP = """
import torch
from torch.nn.functional import cross_entropy
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
opt = torch.optim.AdamW(net.parameters())
x, y = torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1])
"""
STEP = """\
%%fi_explore model=net optimizer=opt
loss = cross_entropy(net(x), y)
loss.backward()
opt.step()
opt.zero_grad()
loss
"""
Runs = Callable[[str], Any]


@pytest.fixture
def shell(
    interpreter: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InteractiveShell]:
    """The shell with the extension and a model; explorers are shown as their session's text."""
    monkeypatch.setattr(Session, "explore", Session.__repr__)
    magics.load_ipython_extension(interpreter)
    interpreter.run_cell(SETUP)
    yield interpreter
    magics.unload_ipython_extension(interpreter)
    interpreter.reset(new_session=False)


@pytest.fixture
def run(shell: InteractiveShell) -> Runs:
    """Run a cell that must not fail, and give its value."""

    def run_cell(text: str) -> Any:
        result = shell.run_cell(text, store_history=True)
        result.raise_error()
        return result.result

    return run_cell


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed since the last look, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


def test_a_cell_is_traced_as_the_step(shell: InteractiveShell, run: Runs) -> None:
    """The session holds the golden run of the cell; its value is the cell's value."""
    loss = run(STEP)
    session = shell.user_ns["fi_session"]
    assert isinstance(session, Session)
    assert session.golden is not None
    assert session.golden.info["loss"] == loss.item()
    assert {site.phase for site in session.golden.sites} == {
        "forward", "loss", "backward", "optimizer"
    }  # fmt: skip


def test_everything_is_as_it_was_before(shell: InteractiveShell, run: Runs) -> None:
    """Parameters, optimizer state and every name, whether new, bound anew or deleted."""
    run("loss, gone = 'mine', 'kept'")
    net, opt = shell.user_ns["net"], shell.user_ns["opt"]
    weights = [parameter.detach().clone() for parameter in net.parameters()]
    run(STEP.replace("opt.step()", "opt.step(); new = 1; del gone; import math as torch"))
    names = shell.user_ns
    assert (names["loss"], names["gone"], names["torch"]) == ("mine", "kept", torch)
    assert "new" not in names
    assert all(torch.equal(a, b) for a, b in zip(weights, net.parameters(), strict=True))
    assert not opt.state


def test_a_replay_leaves_no_faulty_values_behind(shell: InteractiveShell, run: Runs) -> None:
    """The cell runs again for each replay, and its names are put back each time."""
    run("loss = 'mine'")
    golden = run(STEP)
    session = shell.user_ns["fi_session"]
    session.arm("relu*1:0", "scale", factor=100.0)
    faulty = session.replay()
    assert shell.user_ns["loss"] == "mine"
    assert faulty.golden[0].loss == golden.item()
    assert faulty.faulty[0].loss != golden.item()
    assert [injection.changed > 0 for injection in faulty] == [True]


def test_a_cell_that_is_run_again_takes_over_what_was_armed(
    shell: InteractiveShell, run: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into another session, which says so; with nothing armed there is nothing to say."""
    run(STEP)
    first = shell.user_ns["fi_session"]
    run(STEP)
    assert "armed" not in printed(capsys).replace("0 armed", "")
    first = shell.user_ns["fi_session"]
    first.arm("relu*1:0", "zero")
    first.arm("param:0.weight", "bitflip", bit=3, elements={"index": [0, 1]})
    run(STEP)
    second = shell.user_ns["fi_session"]
    assert second is not first
    assert second.plan == first.plan
    assert "2 of 2 faults are armed as before the cell was run again" in printed(capsys)


def test_a_cell_that_was_edited_is_still_the_cell(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the front end's id of it; what its new golden run does not make is left out."""
    shell.run_cell(STEP, store_history=True, cell_id="a").raise_error()
    session = shell.user_ns["fi_session"]
    session.arm("relu*1:0", "zero")
    session.arm("addmm*1:0", "zero")
    edited = STEP.replace("net(x)", "net[2](net[0](x))")
    shell.run_cell(edited, store_history=True, cell_id="a").raise_error()
    assert [str(fault.target) for fault in shell.user_ns["fi_session"].plan] == ["addmm*1:0"]
    assert (
        "1 of 2 faults is armed as before the cell was run again\n"
        "  f1: the step made no call of 'relu'"
    ) in printed(capsys)


@pytest.mark.parametrize("made", ["", "from fi_notebook import Session\n"])
def test_another_session_of_the_name_begins_with_nothing(
    shell: InteractiveShell, run: Runs, made: str
) -> None:
    """Of another cell, though with the same text, or one that was made in Python."""
    shell.run_cell(STEP, store_history=True, cell_id="a").raise_error()
    if made:
        run(f"{made}fi_session = Session(lambda: net(x).sum().backward(), model=net)")
    shell.user_ns["fi_session"].arm("relu*1:0", "zero")
    again = "a" if made else "b"
    shell.run_cell(STEP, store_history=True, cell_id=again).raise_error()
    assert len(shell.user_ns["fi_session"].plan) == 0


def test_source_lines_are_the_cells_own(shell: InteractiveShell, run: Runs) -> None:
    """A call stands at its line in the cell, under the number of the cell."""
    run(STEP)
    number = shell.execution_count - 1
    session = shell.user_ns["fi_session"]
    (site,) = session.golden.find("relu")
    assert site.code[-1].label == f"In [{number}]:2"
    assert session.golden.find("relu", code=f"In [{number}][2]") == [site]
    assert "cross_entropy(net(x), y)" in session.golden.tables.sources[f"In [{number}]"]


def test_a_function_of_another_cell_has_that_cells_lines(
    shell: InteractiveShell, run: Runs
) -> None:
    """Defined in one cell, called in the step: both lines stand in the stack."""
    run("def forward(x):\n    return net(x)\n")
    defined = shell.execution_count - 1
    run(STEP.replace("net(x)", "forward(x)"))
    (site,) = shell.user_ns["fi_session"].golden.find("relu")
    labels = [frame.label for frame in site.code]
    assert labels == [f"In [{defined}]:2", f"In [{defined + 1}]:2"]


@pytest.mark.parametrize("above", ["%precision 3", "there = !echo", "\n\n%precision 3"])
def test_the_source_of_a_cell_with_magics_is_what_was_typed(
    shell: InteractiveShell, run: Runs, above: str
) -> None:
    """A magic or a command among the lines: they are kept as typed, under the same numbers."""
    run(f"{above}\ndef forward(x):\n    return net(x)\n")
    defined = shell.execution_count - 1
    run(STEP.replace("net(x)", "forward(x)"))
    golden = shell.user_ns["fi_session"].golden
    kept = f"{above.strip()}\ndef forward(x):\n    return net(x)"
    step = STEP.replace("net(x)", "forward(x)").strip()
    sources = golden.tables.sources
    assert [sources[f"In [{number}]"] for number in (defined, defined + 1)] == [kept, step]
    assert golden.find("relu")[0].code[0].label == f"In [{defined}]:3"


def test_a_magic_of_several_lines_leaves_the_lines_that_ran(
    shell: InteractiveShell, run: Runs
) -> None:
    """IPython makes one line of it: the text stays the one that the numbers belong to."""
    run("%precision \\\n3\ndef forward(x):\n    return net(x)\n")
    defined = shell.execution_count - 1
    run(STEP.replace("net(x)", "forward(x)"))
    golden = shell.user_ns["fi_session"].golden
    lines = golden.tables.sources[f"In [{defined}]"].splitlines()
    assert lines[golden.find("relu")[0].code[0].line - 1] == "    return net(x)"


def test_a_failing_step_shows_the_cells_own_traceback(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line that failed is marked; nothing of the session stands in between."""
    shell.user_ns["loss"] = "mine"
    text = STEP.replace("opt.step()", "raise ValueError('oops')")
    result = shell.run_cell(text, store_history=True)
    shown = printed(capsys)
    assert isinstance(result.error_in_exec, ValueError)
    assert "----> 4 raise ValueError('oops')" in shown
    assert "session.py" not in shown
    assert shell.user_ns["loss"] == "mine"
    assert shell.user_ns["net"][0].weight.grad is None
    assert "fi_session" not in shell.user_ns


def test_syntax_errors_are_the_cells_own(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line 3 of the cell is line 3 of the message."""
    shell.run_cell("%%fi_explore model=net\nx\nx = = 1\n", store_history=True)
    assert "line 3" in printed(capsys)


def test_the_session_can_have_another_name(shell: InteractiveShell, run: Runs) -> None:
    """``as=`` names it, and values may be any expression."""
    run(STEP.replace("optimizer=opt", "optimizer=[opt] state=[torch.Generator()] as=mine"))
    assert isinstance(shell.user_ns["mine"], Session)
    assert "fi_session" not in shell.user_ns


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "model= is missing; write: %%fi_explore model=net optimizer=opt"),
        ("net", "cannot read 'net'; write: %%fi_explore model=net"),
        ("modle=net", "%%fi_explore has no modle=; did you mean 'model'?"),
        ("model=5", "model is int; expected a torch.nn.Module"),
        ("model=net as=a.b", "as=a.b is no name"),
        ("model=torch.nn.Linear(2,2)", "the step never ran the model"),
    ],
)
def test_what_is_wrong_in_line_1_is_said_in_one_line(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    """No traceback: what was given and what to write."""
    shell.run_cell(f"%%fi_explore {line}\n{STEP.partition(chr(10))[2]}", store_history=True)
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
    assert "Traceback" not in captured.out


def test_a_name_that_does_not_exist_is_pythons_own_error(shell: InteractiveShell) -> None:
    """Line 1 is a call of Python."""
    result = shell.run_cell("%%fi_explore model=nett\n1\n", store_history=True)
    assert isinstance(result.error_in_exec, NameError)


def test_an_empty_cell_is_refused(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """There must be a step."""
    shell.run_cell("%%fi_explore model=net\n", store_history=True)
    captured = capsys.readouterr()
    assert "the cell has no step below %%fi_explore" in captured.out + captured.err


def test_the_plan_is_shown_saved_loaded_and_cleared(
    shell: InteractiveShell, run: Runs, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """``%fi_plan`` speaks of the last session."""
    run(STEP)
    session = shell.user_ns["fi_session"]
    session.arm("relu*1:0", "zero")
    assert run("%fi_plan") == session.plan
    assert "f1: zero at relu*1:0, step 0" in printed(capsys)
    path = tmp_path / "injector.json"
    run(f"%fi_plan save {path}")
    assert FaultPlan.load(path) == session.plan
    assert len(run("%fi_plan clear")) == 0
    assert len(run(f"plan = %fi_plan load {path}\nplan")) == 1
    shell.run_cell("%fi_plan sav x", store_history=True)
    captured = capsys.readouterr()
    assert "%fi_plan cannot 'sav'; did you mean 'save'" in captured.out + captured.err


def test_the_plan_needs_a_session(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without one the message says how to make it."""
    shell.run_cell("%fi_plan", store_history=True)
    captured = capsys.readouterr()
    assert "there is no session yet; write: %%fi_explore" in captured.out + captured.err


def test_loading_twice_is_loading_once_and_unloading_leaves_nothing(
    interpreter: InteractiveShell,
) -> None:
    """Transformers, events and magics are as they were before."""

    def state() -> tuple[Any, ...]:
        return (
            list(interpreter.input_transformers_cleanup),
            list(interpreter.ast_transformers),
            {name: list(found) for name, found in interpreter.events.callbacks.items()},
            {kind: sorted(found) for kind, found in interpreter.magics_manager.magics.items()},
            hasattr(interpreter, "fi_explore"),
        )

    before = state()
    magics.load_ipython_extension(interpreter)
    once = state()
    magics.load_ipython_extension(interpreter)
    assert state() == once != before
    magics.unload_ipython_extension(interpreter)
    magics.unload_ipython_extension(interpreter)
    assert state() == before


def test_the_packages_own_name_is_the_extension(interpreter: InteractiveShell) -> None:
    """``%load_ext fi_notebook`` finds the hooks in the package."""
    interpreter.run_cell("%load_ext fi_notebook").raise_error()
    assert interpreter.find_line_magic("fi_plan") is not None
    interpreter.run_cell("%unload_ext fi_notebook").raise_error()
    assert interpreter.find_line_magic("fi_plan") is None


@pytest.mark.parametrize(
    ("first", "call"),
    [
        ("%%fi_explore model=net optimizer=opt", "fi_explore(model=(net), optimizer=(opt))"),
        ("%%fi_explore model=net, state=[a, b] as=s", "fi_explore(model=(net), state=([a, b]), as_='s')"),  # noqa: E501
        ("%%fi_explore model=make(kind='a', n = 3)", "fi_explore(model=(make(kind='a', n = 3)))"),
        ("%%fi_explore", "fi_explore()"),
    ],
)  # fmt: skip
def test_line_1_becomes_a_call(first: str, call: str) -> None:
    """The other lines stay as they are."""
    written = [f"get_ipython().{call}  # {first.strip()}\n", "a\n"]
    assert magics.call_of_first_line([first + "\n", "a\n"]) == written


@pytest.mark.parametrize("first", ["%%fi_explore?", "%%fi_explorer x", "x = 1", "%%time"])
def test_other_cells_are_left_alone(first: str) -> None:
    """Help, other magics and plain code."""
    assert magics.call_of_first_line([first + "\n"]) == [first + "\n"]
    assert magics.call_of_first_line([]) == []


def test_a_timed_cell_can_be_explored(shell: InteractiveShell, run: Runs) -> None:
    """``%%time`` above hands its body through the same transformers; its line is that of all."""
    run("%%time\n" + STEP)
    golden = shell.user_ns["fi_session"].golden
    label = f"In [{shell.execution_count - 1}]:1"
    assert [frame.label for frame in golden.find("relu")[0].code] == [label]
    assert {frame.label for site in golden.sites for frame in site.code} == {label}


def test_the_exported_form_of_the_magic_works(shell: InteractiveShell, run: Runs) -> None:
    """A notebook that was saved as a script calls ``run_cell_magic``."""
    line, _, body = STEP.partition("\n")
    arguments = line.removeprefix("%%fi_explore ")
    run(f"get_ipython().run_cell_magic('fi_explore', {arguments!r}, {body!r})")
    assert shell.user_ns["fi_session"].golden is not None


@pytest.mark.parametrize(("magic", "kept"), [("%%time", False), ("%%capture", True)])
def test_a_step_of_a_cell_under_a_magic_has_a_line_of_the_notebook(
    shell: InteractiveShell, run: Runs, magic: str, kept: bool
) -> None:
    """Its own where IPython keeps it, else that of the cell which has it run."""
    run("from fi_notebook import Session")
    step = f"def step():\n    return cross_entropy(net(x), y).backward()  # {magic}\n"
    trace = "made = Session(step, model=net, optimizer=opt).trace()\n"
    run(f"{magic}\n{step}{trace}")
    made, number = shell.user_ns["made"], shell.execution_count - 1
    line = 2 if kept else 1
    assert [f.line for f in made.find("relu")[0].code] == [line]
    assert kept or made.find("relu")[0].code[0].label == f"In [{number}]:1"
    assert kept or made.tables.sources[f"In [{number}]"].startswith(f"{magic}\ndef step():")
    run(f"{magic}\n{step}")
    run(f"x = x\n{trace}")
    (site,) = shell.user_ns["made"].find("relu")
    assert [frame.line for frame in site.code] == [2]  # in the step, or that of the trace
    assert kept or site.code[0].label == f"In [{number + 2}]:2"


@pytest.mark.timeout(300)
def test_a_step_of_a_cell_that_is_profiled_has_a_line_of_the_notebook(tmp_path: Path) -> None:
    """As under ``%%time``; in a kernel of its own, for Python's profiler can hang in one that
    has other threads.
    """
    step = "def step():\n    return cross_entropy(net(x), y).backward()\n"
    trace = "made = Session(step, model=net, optimizer=opt).trace()\n"
    label = 'print(*[frame.label for frame in made.find("relu")[0].code])'
    cells = [SETUP + "\nfrom fi_notebook import Session", f"%%prun -q\n{step}{trace}", label]
    cells += [f"%%prun -q\n{step}", f"x = x\n{trace}", label]
    done = notebooks.run(notebooks.write(tmp_path / "profiled.ipynb", *cells))
    assert notebooks.text(done.cells[2]).strip() == "In [2]:1"
    assert notebooks.text(done.cells[5]).strip() == "In [5]:2"
