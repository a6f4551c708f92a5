"""Why filters choose nothing: which of them, and what there is in its place."""

from __future__ import annotations

import pytest

from fi_notebook.core.site import Frame, Target
from fi_notebook.core.steps import Steps
from fi_notebook.core.unfit import Asked, Made

_MADE = [
    Made("default", "forward", "layer.0", True, (Frame("/a/run.py", 83, "forward"),), 0),
    Made("default", "backward", "layer.out", False, (Frame("/a/run.py", 90, "forward"),), 1),
    Made("default", "backward", "", False, (Frame("/a/run.py", 12, "forward"),), 1),
    Made("default", "backward", "head", False, (Frame("/a/loss.py", 5, "forward"),), 1),
]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            Asked("mm", phases=("loss", "optimizer")),
            "is in phase 'loss' or 'optimizer': they are in …",
        ),
        (Asked("mm", overload="out"), "is of overload 'out': they are of 'default'"),
        (
            Asked("mm", code=("run.py[85]",)),
            "is on run.py[85]: the nearest are on run.py:83, run.py:90, run.py:12",
        ),
        (
            Asked("mm", code=("los.py",)),
            "is on los.py: the nearest are on loss.py:5, run.py:83, run.py:90",
        ),
        (Asked("mm", micro_batches=Steps.parse(7)), "is in micro batch 7: they are in 0, 1"),
        (
            Asked("mm", phases=("loss",), code=("run.py[12]",), overload="out"),
            "is of overload 'out': they are of 'default'; none is in phase 'loss': they are in …",
        ),
        (
            Asked("mm", phases=("backward",), code=("run.py[83]",)),
            "is in phase 'backward' and on run.py[83] at once; each alone fits some",
        ),
    ],
)
def test_the_filter_that_leaves_nothing_is_named(asked: Asked, said: str) -> None:
    """With what the calls have in its place, the nearest first; else all, as they fit apart."""
    said = said.replace("…", "'forward', 'backward'")
    assert asked.unfit(_MADE, "in step 0") == f"no call of 'mm' in step 0 {said}"


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("mm", Asked("mm")),
        ("mm.out*3:0", Asked("mm*3", overload="out")),
        ("other/split*1:0[2]", Asked("other/split*1")),
    ],
)
def test_a_target_asks_for_an_overload_of_the_calls_that_it_numbers(
    target: str, asked: Asked
) -> None:
    """Its output is no filter of calls."""
    assert Asked.of(Target.parse(target)) == asked


def test_modules_are_named_by_how_near_their_names_are() -> None:
    """Three at most; the model itself is ``(model)``."""
    made = [call._replace(within=False) for call in _MADE]
    assert Asked("mm", modules=("layer.ou",)).unfit(made) == (
        "no call of 'mm' is in module 'layer.ou': the nearest are in 'layer.out', 'layer.0', 'head'"
    )
    assert Asked("mm", modules=("fc",)).unfit(made[2:3]) == (
        "no call of 'mm' is in module 'fc': they are in (model)"
    )
    assert Asked("mm", modules=()).unfit(made[:1]) == (
        "no call of 'mm' is in modules []: they are in 'layer.0'"
    )


def test_nothing_is_said_where_a_call_fits_or_none_was_made() -> None:
    """Then the reason is another one."""
    asked = Asked("mm", phases=("forward",), modules=("layer",), code=("run.py",))
    assert asked.unfit(_MADE) == ""
    assert asked.unfit([]) == ""


def test_a_call_without_lines_is_told_as_that() -> None:
    """A line is asked for, and no call has any."""
    made = [_MADE[0]._replace(frames=())]
    assert Asked("mm", code=("run.py[83]",)).unfit(made) == (
        "no call of 'mm' is on run.py[83]: they have no source lines"
    )
