from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.core.match import (
    CodeFilter,
    check_modules,
    module_matches,
    name_matches,
    unwrapped,
)
from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE, Frame
from fi_notebook.errors import SiteError


@pytest.mark.parametrize(
    ("pattern", "name", "chosen"),
    [
        ("layer", "layer", True),
        ("layer", "layer.0.norm", True),
        ("layer", "layers.0", False),
        ("layer.*", "layer.0", True),
        ("layer.*", "layer.0.norm", True),
        ("layer.*", "layer", False),
        ("*.norm", "layer.0.norm", True),
        ("layer.[01]", "layer.1.act", True),
        ("", "layer.0", True),
        ("", "", True),
        ("", LOSS_FUNCTION, False),
        ("*", OUTSIDE, False),
        (LOSS_FUNCTION, LOSS_FUNCTION, True),
        ("layer.0", "module.layer.0", True),
        ("module.layer.0", "layer.0", True),
        ("layer.0", "_orig_mod.layer.0", True),
        ("layer.0", "module._orig_mod.layer._checkpoint_wrapped_module.0", True),
    ],
)
def test_module_filters(pattern: str, name: str, chosen: bool) -> None:
    """A filter chooses the module and everything below; wrappers may be left out."""
    assert module_matches(pattern, (name,)) is chosen


def test_a_shared_module_answers_to_each_of_its_names() -> None:
    """Any one of the names suffices."""
    assert module_matches("decoder", ("encoder.embed", "decoder.embed"))


def test_unwrapped_keeps_a_module_called_module_inside() -> None:
    """Only the leading ``module`` is DDP's."""
    assert unwrapped("module.a.module.b") == "a.module.b"


@pytest.mark.parametrize(
    ("pattern", "name", "chosen"),
    [
        ("a.weight", "module.a.weight", True),
        ("module.a.weight", "a.weight", True),
        ("a.weight", "_orig_mod.a._checkpoint_wrapped_module.weight", True),
        ("module.*.weight", "a.weight", True),
        ("a.weight", "b.a.weight", False),
        ("module", "a.weight", False),
        ("a", "module.a.weight", False),
    ],
)
def test_a_stored_tensor_has_its_name_in_a_wrapper_too(
    pattern: str, name: str, chosen: bool
) -> None:
    """The whole name must fit, but for what wrappers add."""
    assert name_matches(pattern, (name,)) is chosen


def test_a_filter_that_chooses_nothing_is_refused_with_near_names() -> None:
    """The nearest module names stand in the message."""
    check_modules(["layer.0", LOSS_FUNCTION, ""], ["", "layer.0"])
    with pytest.raises(SiteError, match=r"no module 'layr\.0'; did you mean 'layer\.0'\?"):
        check_modules(["layr.0"], ["", "layer.0"])


@pytest.mark.parametrize(
    ("text", "file", "line", "chosen"),
    [
        ("run.py[83]", "/home/me/run.py", 83, True),
        ("run.py[83]", "/home/me/run.py", 84, False),
        ("run.py[83]", "/home/me/overrun.py", 83, False),
        ("run.py:83", "/home/me/run.py", 83, True),
        ("run.py", "/home/me/run.py", 5, True),
        ("./run.py[83]", "/home/me/run.py", 83, True),
        ("/home/me/run.py[83]", "/home/me/run.py", 83, True),
        (r".\run.py[83]", r"C:\work\run.py", 83, True),
        (r"C:\work\run.py[83]", r"C:\work\run.py", 83, True),
        ("In [5][3]", "In [5]", 3, True),
        ("In[5][3]", "In [5]", 3, True),
        ("In [5]", "In [5]", 7, True),
        ("In [5]", "In [6]", 7, False),
        ("In [5]:3", "In [5]", 3, True),
    ],
)
def test_code_filters(text: str, file: str, line: int, chosen: bool) -> None:
    """Files match by their tail, on any system; a cell is a file of its own."""
    assert CodeFilter.parse(text).matches([Frame(file, line, "forward")]) is chosen


def test_a_code_filter_matches_any_frame_of_the_stack() -> None:
    """A line that calls a module covers everything beneath it."""
    stack = [Frame("net.py", 7, "forward"), Frame("run.py", 83, "step")]
    assert CodeFilter.parse("run.py[83]").matches(stack)


@given(st.text(max_size=30))
def test_any_text_is_a_code_filter_or_refused(text: str) -> None:
    """Nothing raises anything but `SiteError`."""
    try:
        CodeFilter.parse(text)
    except SiteError:
        return


@pytest.mark.parametrize("text", ["", "  ", 5])
def test_what_is_no_source_line_is_refused(text: str) -> None:
    """A refusal shows the forms that there are."""
    with pytest.raises(SiteError, match=r"as a source line; expected 'run\.py"):
        CodeFilter.parse(text)


def test_the_class_of_the_model_is_no_name_of_it() -> None:
    """Who asks for it is told that the whole model is the empty name."""
    with pytest.raises(SiteError, match="no module 'cnn'; that is the whole model, which is ''"):
        check_modules(["cnn"], ["", "fc"], "Cnn")
    check_modules(["Cnn"], ["", "Cnn"], "Cnn")  # a module may have that name
