from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.core.site import STORED_KINDS, Frame, Site, Target, module_text
from fi_notebook.errors import SiteError

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
OPS = st.one_of(
    WORDS,
    st.builds("{}::{}".format, WORDS.filter(lambda name: name != "aten"), WORDS),
)
NUMBERS = st.integers(0, 10**18 - 1)
SITES = st.builds(
    Site,
    op=OPS,
    call=st.integers(1, 10**18 - 1),
    output=NUMBERS,
    index=st.none() | NUMBERS,
    counted=st.booleans(),
)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Any target that has a text."""
    if draw(st.booleans()):
        name = draw(st.from_regex(r"[^\s]{1,20}", fullmatch=True))
        return Target(op=name.strip() or "weight", kind=draw(st.sampled_from(STORED_KINDS)))
    call = draw(st.none() | st.integers(1, 10**18 - 1))
    return Target(
        op=draw(OPS),
        overload=draw(st.none() | WORDS),
        call=call,
        output=None if call is None else draw(st.none() | NUMBERS),
        index=draw(st.none() | NUMBERS),
        counted=draw(st.booleans()),
    )


@given(SITES)
def test_a_site_reads_its_own_text_back(site: Site) -> None:
    """`Site.parse` is the inverse of `str`, for every site."""
    assert Site.parse(str(site)) == site
    assert hash(Site.parse(str(site))) == hash(site)


@given(targets())
def test_a_target_reads_its_own_text_back(target: Target) -> None:
    """`Target.parse` is the inverse of `str`, for every target."""
    assert Target.parse(str(target)) == target


@given(SITES)
def test_a_site_is_chosen_by_its_own_target(site: Site) -> None:
    """The target of a site chooses it, and so do the call and the bare operator."""
    assert site.target.matches(site)
    assert Target(site.op, call=site.call, counted=site.counted).matches(site)
    assert Target(site.op, counted=site.counted).matches(site)


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    """No text raises anything but `SiteError`, and what is read is written alike."""
    try:
        target = Target.parse(text)
    except SiteError:
        return
    assert Target.parse(str(target)) == target


def test_description_is_no_part_of_a_sites_identity() -> None:
    """Two runs of an edited script speak of the same site."""
    here = Site("addmm", 3, code=(Frame("run.py", 83, "forward"),), phase="forward")
    assert here == Site("addmm", 3, code=(Frame("run.py", 90, "forward"),), module="fc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("addmm", Target("addmm")),
        (" addmm*3:0 ", Target("addmm", call=3, output=0)),
        ("add.Tensor*2", Target("add", overload="Tensor", call=2)),
        ("aten::add*2", Target("add", call=2)),
        ("aten.add.Tensor*2", Target("add", overload="Tensor", call=2)),
        ("torch.ops.aten.addmm.default", Target("addmm", overload="default")),
        ("other/aten.mul*1", Target("mul", call=1, counted=False)),
        ("c10d.allreduce_.default*1", Target("c10d::allreduce_", overload="default", call=1)),
        ("torch.ops.mylib.scan", Target("mylib::scan")),
        ("my_aten.add", Target("my_aten", overload="add")),
        ("c10d::allreduce_*1:0", Target("c10d::allreduce_", call=1, output=0)),
        ("_foreach_add_*1:0[3]", Target("_foreach_add_", call=1, output=0, index=3)),
        ("other/mul*1", Target("mul", call=1, counted=False)),
        ("param:layer.0.weight", Target("layer.0.weight", kind="param")),
        ("state:fc.weight.exp_avg", Target("fc.weight.exp_avg", kind="state")),
    ],
)
def test_forms_of_targets(text: str, expected: Target) -> None:
    """Each form of the text means what the documentation says."""
    assert Target.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot read the target ''"),
        ("addmm*", "cannot read the target 'addmm\\*'"),
        ("addmm*0", "calls are numbered from 1"),
        ("addmm:0", "an output needs a call number, such as 'addmm\\*1:0'"),
        ("add mm", "expected text such as 'addmm'"),
        ("addmm*" + "9" * 5000, "cannot read the target"),
        ("٣addmm", "cannot read the target"),
        (7, "a target is text, not int: 7"),
    ],
)
def test_what_is_no_target_is_refused(text: str, reason: str) -> None:
    """A refusal says what was given and what would be a target."""
    with pytest.raises(SiteError, match=reason):
        Target.parse(text)


def test_a_target_that_names_several_sites_is_no_site() -> None:
    """`Site.parse` asks for operator, call and output."""
    with pytest.raises(SiteError, match=r"'addmm\*3' does not name one site"):
        Site.parse("addmm*3")


def test_an_overload_describes_a_site_and_is_not_in_its_text() -> None:
    """Two runs that differ in it speak of the same site."""
    site = Site.parse("add.Tensor*2:0")
    assert (site.overload, str(site)) == ("Tensor", "add*2:0")
    assert Site.parse(str(site)) == site


def test_a_target_does_not_choose_another_overload() -> None:
    """`add.Tensor*2` is call 2 of the packet and must be that overload."""
    scalar = Site("add", 2, overload="Scalar")
    assert not Target.parse("add.Tensor*2").matches(scalar)
    assert Target.parse("add*2").matches(scalar)


def test_labels_of_frames() -> None:
    """A frame is shown by the last part of its file, on any system."""
    assert Frame("/home/me/run.py", 83, "f").label == "run.py:83"
    assert Frame(r"C:\work\run.py", 83, "f").label == "run.py:83"
    assert Frame("In [5]", 3, "f").label == "In [5]:3"


def test_the_model_itself_has_one_name_where_modules_are_shown() -> None:
    """The path of the root is empty; in tables, logs and campaigns it is ``(model)``."""
    assert (module_text(""), module_text("layers.0")) == ("(model)", "layers.0")
