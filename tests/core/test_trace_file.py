# ruff: noqa: E501 - a table of cases reads best with one case a line
from __future__ import annotations

import json
import math
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fi_notebook.core.site import Frame
from fi_notebook.core.trace import CALL_COLUMNS, SITE_COLUMNS, Trace
from fi_notebook.core.trace_file import VERSION
from fi_notebook.errors import TraceError
from tests.traces import Call, build, digits_step, large


def same(left: Trace, right: Trace) -> bool:
    """Whether two traces hold the same bits."""
    return (
        left.tables == right.tables
        and left.info == right.info
        and all(left.calls[n].tobytes() == right.calls[n].tobytes() for n in CALL_COLUMNS)
        and all(
            left.site_columns[n].tobytes() == right.site_columns[n].tobytes() for n in SITE_COLUMNS
        )
        and np.array_equal(left.input_offsets, right.input_offsets)
        and np.array_equal(left.input_sites, right.input_sites)
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of the small step in a file."""
    path = tmp_path_factory.mktemp("traces") / "step.fi"
    digits_step().save(path)
    return path.read_bytes()


def edited(saved: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The file with its members changed, and right checksums."""
    with zipfile.ZipFile(BytesIO(saved)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def with_header(saved: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with its JSON header changed."""

    def edit(members: dict[str, bytes]) -> None:
        header = json.loads(members["header.json"])
        change(header)
        members["header.json"] = json.dumps(header).encode()

    return edited(saved, edit)


def with_column(saved: bytes, name: str, change: Callable[[np.ndarray], Any]) -> bytes:
    """The file with one column changed."""

    def edit(members: dict[str, bytes]) -> None:
        column = np.load(BytesIO(members[f"{name}.npy"]))
        changed = change(column)
        buffer = BytesIO()
        np.save(buffer, column if changed is None else changed, allow_pickle=True)
        members[f"{name}.npy"] = buffer.getvalue()

    return edited(saved, edit)


def refused(tmp_path: Path, data: bytes, reason: str) -> None:
    """Loading these bytes raises `TraceError` with this reason."""
    path = tmp_path / "hostile.fi"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.load(path)
    assert "hostile.fi" in str(caught.value)


def test_a_trace_comes_back_bit_for_bit(tmp_path: Path) -> None:
    """Columns, tables, sources and info, NaN included, are as they were."""
    trace = digits_step()
    trace.site_columns["min"][0] = math.nan
    trace.site_columns["max"][0] = np.frombuffer(b"\x01\0\0\0\0\0\xf8\x7f", np.float64)[0]
    trace.save(tmp_path / "step.fi")
    assert same(Trace.load(tmp_path / "step.fi"), trace)
    assert list(tmp_path.iterdir()) == [tmp_path / "step.fi"]


def test_the_same_trace_makes_the_same_file(tmp_path: Path, saved: bytes) -> None:
    """No time and no chance is written."""
    digits_step().save(tmp_path / "again.fi")
    assert (tmp_path / "again.fi").read_bytes() == saved


def test_columns_are_plain_numpy_arrays(tmp_path: Path, saved: bytes) -> None:
    """Anybody can read them with ``numpy.load`` and without pickle."""
    path = tmp_path / "step.fi"
    path.write_bytes(saved)
    with np.load(path, allow_pickle=False) as archive:
        assert archive["calls.number"].tolist() == digits_step().calls["number"].tolist()


def test_an_empty_step_and_odd_names_come_back(tmp_path: Path) -> None:
    """Nothing at all, and names in any alphabet, markup and half a surrogate pair."""
    names = ("<img src=x onerror=alert(1)>", "\u202eright", "层\n0", "\ud800", "x" * 100_000)
    frames = tuple(Frame(name, 3, name) for name in names)
    for trace in (build(), build(*(Call("mm", name, stack=frames) for name in names))):
        trace.save(tmp_path / "odd.fi")
        assert same(Trace.load(tmp_path / "odd.fi"), trace)


def test_info_that_json_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The old file stays."""
    trace = replace(digits_step(), info={"model": object()})
    with pytest.raises(TraceError, match=r"info holds what JSON cannot hold: .*type object"):
        trace.save(tmp_path / "step.fi")
    assert not list(tmp_path.iterdir())


def test_a_hundred_thousand_calls_go_through_a_file(tmp_path: Path) -> None:
    """What is read is what was written, at that size too."""
    trace = large(100_000)
    trace.save(tmp_path / "large.fi")
    assert same(Trace.load(tmp_path / "large.fi"), trace)


def test_a_newer_version_is_refused_clearly(tmp_path: Path, saved: bytes) -> None:
    """Both versions are named, and what to do."""
    data = with_header(saved, lambda header: header.update(version=VERSION + 1))
    refused(tmp_path, data, f"of version {VERSION + 1}, .* up to version {VERSION}; update")


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    """Text, a folder, nothing, another archive, a pipe: each says why."""
    refused(tmp_path, b"", "File is not a zip file")
    refused(tmp_path, b"hello", "File is not a zip file")
    refused(tmp_path, edited(empty_zip(), lambda m: m.update(a=b"")), "no item named 'header.json'")
    with pytest.raises(TraceError, match="there is no such file"):
        Trace.load(tmp_path / "nowhere.fi")
    with pytest.raises(TraceError, match="there is no such file"):
        Trace.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="there is no such file"):
        Trace.load(tmp_path / "pipe")


def empty_zip() -> bytes:
    """An archive without members."""
    buffer = BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h: h.update(format="tape"), "the format is 'tape'; expected 'fi_notebook trace'"),
        (lambda h: h.update(version="1"), "the version is '1'; expected 1"),
        (lambda h: h.update(version=True), "the version is True"),
        (lambda h: h.update(calls=-1), "calls is -1; expected a number from 0"),
        (lambda h: h.update(calls=True), "calls is bool; expected int"),
        (lambda h: h.update(calls=10**15), "column calls.op holds 14 of <i4 in 56 bytes"),
        (lambda h: h.update(sites=10**30), "sites is 1000000000000000000000000000000"),
        (lambda h: h.pop("sites"), "sites is NoneType; expected int"),
        (lambda h: h.update(info=[1]), "info is list; expected dict"),
        (lambda h: h.pop("tables"), "tables is NoneType; expected dict"),
        (lambda h: h["tables"].update(ops="addmm"), "ops is str; expected list"),
        (lambda h: h["tables"].update(ops=[1]), "ops is int; expected str"),
        (lambda h: h["tables"].update(ops=[]), "column calls.op holds 0 in row 0; expected 0 to -1"),
        (lambda h: h["tables"].update(modules=[["a"]]), "not enough values"),
        (lambda h: h["tables"].update(frames=[["a", -1, "f"]]), "frames is -1"),
        (lambda h: h["tables"].update(stacks=[[99]]), "stacks is 99; expected a number from 0 to 7"),
        (lambda h: h["tables"].update(stacks=[[-1]]), "stacks is -1"),
        (lambda h: h["tables"].update(shapes=[[1.5]]), "shapes is float; expected int"),
        (lambda h: h["tables"].update(sources={"a": 1}), "sources is int; expected str"),
    ],
)  # fmt: skip
def test_hostile_headers(
    tmp_path: Path, saved: bytes, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    """Each wrong type, count and number in the header is named."""
    refused(tmp_path, with_header(saved, change), reason)


def assign(row: int, value: Any) -> Callable[[np.ndarray], None]:
    """A change of one number of a column."""

    def change(column: np.ndarray) -> None:
        column[row] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("calls.op", assign(3, 99), "calls.op holds 99 in row 3; expected 0 to 12"),
        ("calls.overload", assign(3, -1), "calls.overload holds -1 in row 3"),
        ("calls.number", assign(0, 0), "calls.number holds 0 in row 0; expected 1 up"),
        ("calls.phase", assign(0, 6), "calls.phase holds 6 in row 0; expected 0 to 5"),
        ("calls.module", assign(0, 8), "calls.module holds 8 in row 0; expected 0 to 7"),
        ("calls.stack", assign(0, 50), "calls.stack holds 50 in row 0"),
        ("calls.cause", assign(2, 2), "calls.cause names a call that was made later"),
        ("calls.cause", assign(2, 14), "calls.cause holds 14 in row 2"),
        ("calls.cause", assign(2, -2), "calls.cause holds -2 in row 2"),
        ("calls.parameter", assign(0, 2), "calls.parameter holds 2 in row 0"),
        ("calls.flags", assign(0, 64), "calls.flags holds 64 in row 0"),
        ("calls.first_site", assign(0, 5), "first_site does not name the first site"),
        ("calls.first_site", assign(0, -9), "calls.first_site holds -9"),
        ("calls.micro_batch", assign(0, -2), "calls.micro_batch holds -2"),
        ("calls.counted", lambda c: c.view(np.uint8) + np.uint8(1), "calls.counted holds 14 of |u1"),
        ("sites.call", assign(0, 14), "sites.call holds 14 in row 0"),
        ("sites.call", assign(0, 13), "sites.call is not in execution order"),
        ("sites.output", assign(0, -1), "sites.output holds -1"),
        ("sites.index", assign(0, -2), "sites.index holds -2"),
        ("sites.dtype", assign(0, 1), "sites.dtype holds 1 in row 0"),
        ("sites.shape", assign(0, 3), "sites.shape holds 3 in row 0"),
        ("sites.nan", assign(0, -2), "sites.nan holds -2"),
        ("inputs.sites", assign(0, 18), "inputs.sites holds 18"),
        ("inputs.offsets", assign(0, 1), "inputs.offsets does not divide the inputs"),
        ("inputs.offsets", assign(2, 9), "inputs.offsets does not divide the inputs"),
        ("calls.op", lambda c: c[:5], "calls.op holds 5 of <i4 in 20 bytes; expected 14 of <i4"),
        ("calls.op", lambda c: c.astype(">i4"), "calls.op is no array of one dimension"),
        ("calls.op", lambda c: c.astype(np.int64), "calls.op holds 14 of <i8"),
        ("calls.op", lambda c: c.reshape(2, 7), "calls.op is no array of one dimension"),
        ("calls.op", lambda c: np.array([print]), "calls.op is no array of one dimension"),
    ],
)  # fmt: skip
def test_hostile_columns(
    tmp_path: Path, saved: bytes, name: str, change: Callable[[np.ndarray], Any], reason: str
) -> None:
    """Each number out of range is named with its column, its row and the range."""
    refused(tmp_path, with_column(saved, name, change), reason.replace("|", r"\|"))


def test_a_bool_that_is_neither_is_refused(tmp_path: Path, saved: bytes) -> None:
    """A byte 2 in a column of bools would make numpy miscount."""

    def edit(members: dict[str, bytes]) -> None:
        data = bytearray(members["calls.counted.npy"])
        data[-1] = 2
        members["calls.counted.npy"] = bytes(data)

    refused(tmp_path, edited(saved, edit), "calls.counted holds 2 in row 13; expected 0 to 1")


def test_members_that_are_missing_packed_or_code(tmp_path: Path, saved: bytes) -> None:
    """Nothing is unpacked, nothing unpickled."""

    def without_op(members: dict[str, bytes]) -> None:
        del members["calls.op.npy"]

    refused(tmp_path, edited(saved, without_op), "no item named 'calls.op.npy'")
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b" " * 10_000_000)
    refused(tmp_path, bomb.getvalue(), "header.json is compressed")
    code = pickle.dumps(print)
    refused(tmp_path, edited(saved, lambda m: m.update({"calls.op.npy": code})), "no array")
    refused(tmp_path, edited(saved, lambda m: m.update({"header.json": b"[" * 10**5})), "recursion")
    refused(tmp_path, edited(saved, lambda m: m.update({"header.json": b"9" * 10**5})), "digits")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_refused_or_read_whole(
    tmp_path: Path, saved: bytes, data: st.DataObject
) -> None:
    """Cut anywhere, or with bits flipped anywhere: the same trace, or `TraceError`."""
    damaged = bytearray(saved)
    for _ in range(data.draw(st.integers(0, 3))):
        bit = data.draw(st.integers(0, 8 * len(saved) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
    end = data.draw(st.just(len(saved)) | st.integers(0, len(saved)))
    path = tmp_path / "damaged.fi"
    path.write_bytes(bytes(damaged[:end]))
    try:
        loaded = Trace.load(path)
    except TraceError:
        return
    assert same(loaded, digits_step())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_forged_columns_are_refused_or_safe(
    tmp_path: Path, saved: bytes, data: st.DataObject
) -> None:
    """Any number in any column, with a right checksum: refused, or every site can be made."""
    name = data.draw(st.sampled_from([f"calls.{n}" for n in CALL_COLUMNS] + [f"sites.{n}" for n in SITE_COLUMNS] + ["inputs.offsets", "inputs.sites"]))  # fmt: skip

    def forge(members: dict[str, bytes]) -> None:
        column = bytearray(members[f"{name}.npy"])
        for _ in range(data.draw(st.integers(1, 4))):
            column[data.draw(st.integers(128, len(column) - 1))] = data.draw(st.integers(0, 255))
        members[f"{name}.npy"] = bytes(column)

    path = tmp_path / "forged.fi"
    path.write_bytes(edited(saved, forge))
    try:
        loaded = Trace.load(path)
    except TraceError:
        return
    assert len(list(loaded.sites)) == 18
    for by in ("module", "source", "op"):
        loaded.tree(by).self_check()
    loaded.to_pandas()
