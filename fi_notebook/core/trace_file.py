"""Traces in files: a numpy archive of columns, with a JSON header and no pickle.

    header.json            format, version, counts, tables, info
    calls.op.npy           one array per column, readable with ``numpy.load``
    sites.dtype.npy
    inputs.offsets.npy

A file is read as something that anybody may have written: every column is checked for
its type, its length and the range of its numbers, the header for its types, before a
trace is made of it. Members are stored without compression, so that nothing can unpack
to more than the file's own size.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from fi_notebook.core.files import written_whole
from fi_notebook.core.site import PHASES, Frame
from fi_notebook.core.trace import CALL_COLUMNS, FLAGS, SITE_COLUMNS, ModuleInfo, Tables, Trace
from fi_notebook.errors import TraceError

__all__ = ["VERSION", "load", "save"]

FORMAT = "fi_notebook trace"
VERSION = 1
HEADER = "header.json"

_INPUTS = {"offsets": np.int64, "sites": np.int64}
_MEMBER_DATE = (1980, 1, 1, 0, 0, 0)  # the same trace makes the same file
_ARRAY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype>[<|][a-z]\d)', 'fortran_order': False, "
    rb"'shape': \((?P<length>\d{1,18}),\), \} *\n",
    re.DOTALL,
)
_UNREADABLE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,  # also NotImplementedError and RecursionError
    ValueError,  # also TraceError
    struct.error,
    zipfile.BadZipFile,
)
"""What reading may raise where the file is no archive, is damaged or is hostile."""


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace to a file, whole or not at all.

    Raises:
        TraceError: Its ``info`` holds something that JSON cannot hold.
    """
    try:
        header = json.dumps(_header(trace)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"the trace's info holds what JSON cannot hold: {error}") from error
    with (
        written_whole(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr(zipfile.ZipInfo(HEADER, _MEMBER_DATE), header)
        for name, column in _columns(trace):
            member = zipfile.ZipInfo(f"{name}.npy", _MEMBER_DATE)
            with archive.open(member, "w", force_zip64=True) as stream:
                npy.write_array(stream, column, version=(1, 0), allow_pickle=False)


def load(path: str | Path) -> Trace:
    """Read a trace from a file.

    Raises:
        TraceError: The file is no trace, is damaged, or is of a newer version.
    """
    try:
        return _read(Path(path))
    except _UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise TraceError(f"cannot read {str(path)!r} as a trace: {reason}") from None


def _columns(trace: Trace) -> Iterator[tuple[str, np.ndarray]]:
    inputs = {"offsets": trace.input_offsets, "sites": trace.input_sites}
    groups: tuple[tuple[str, Mapping[str, Any], Mapping[str, np.ndarray]], ...] = (
        ("calls", CALL_COLUMNS, trace.calls),
        ("sites", SITE_COLUMNS, trace.site_columns),
        ("inputs", _INPUTS, inputs),
    )
    for group, types, columns in groups:
        for name, kind in types.items():
            dtype = np.dtype(kind).newbyteorder("<")
            yield f"{group}.{name}", np.ascontiguousarray(columns[name], dtype=dtype)


def _header(trace: Trace) -> dict[str, Any]:
    tables = trace.tables
    frames = {
        frame: row for row, frame in enumerate(dict.fromkeys(chain.from_iterable(tables.stacks)))
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "calls": trace.call_count,
        "sites": len(trace),
        "inputs": len(trace.input_sites),
        "tables": {
            "ops": tables.ops,
            "overloads": tables.overloads,
            "modules": [[info.path, info.kind, info.aliases] for info in tables.modules],
            "parameters": tables.parameters,
            "frames": list(frames),
            "stacks": [[frames[frame] for frame in stack] for stack in tables.stacks],
            "dtypes": tables.dtypes,
            "shapes": tables.shapes,
            "sources": dict(tables.sources),
        },
        "info": dict(trace.info),
    }


def _read(path: Path) -> Trace:
    if not path.is_file():
        raise TraceError("there is no such file")
    with zipfile.ZipFile(path) as archive:
        header = _read_header(_member(archive, HEADER))
        calls, sites, inputs = (_count(header.get(n), n) for n in ("calls", "sites", "inputs"))
        trace = Trace(
            tables=_tables(_typed(header.get("tables"), dict, "tables")),
            calls=_group(archive, "calls", CALL_COLUMNS, calls),
            site_columns=_group(archive, "sites", SITE_COLUMNS, sites),
            input_offsets=_array(archive, "inputs.offsets", np.int64, calls + 1),
            input_sites=_array(archive, "inputs.sites", np.int64, inputs),
            info=_typed(header.get("info"), dict, "info"),
        )
    _check_calls(trace)
    _check_sites(trace)
    _check_inputs(trace)
    return trace


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise TraceError(f"{name} is compressed; the members of a trace are not")
    return archive.read(info)


def _read_header(text: bytes) -> dict[str, Any]:
    header = _typed(json.loads(text), dict, "the header")
    if header.get("format") != FORMAT:
        raise TraceError(f"the format is {header.get('format')!r}; expected {FORMAT!r}")
    version = header.get("version")
    if type(version) is int and version > VERSION:
        raise TraceError(
            f"it is of version {version}, and this fi_notebook reads up to version {VERSION}; "
            "update fi_notebook"
        )
    if type(version) is not int or version != VERSION:
        raise TraceError(f"the version is {version!r}; expected {VERSION}")
    return header


def _group(
    archive: zipfile.ZipFile, group: str, types: Mapping[str, Any], length: int
) -> dict[str, np.ndarray]:
    return {name: _array(archive, f"{group}.{name}", kind, length) for name, kind in types.items()}


def _array(archive: zipfile.ZipFile, name: str, kind: Any, length: int) -> np.ndarray:
    """One column, as a view of the bytes that were read; nothing of it is interpreted."""
    data = _member(archive, f"{name}.npy")
    match = _ARRAY_HEADER.match(data)
    if match is None:
        raise TraceError(f"column {name} is no array of one dimension")
    dtype = np.dtype(kind).newbyteorder("<")
    given = (match["dtype"].decode(), int(match["length"]), len(data) - match.end())
    if given != (dtype.str, length, length * dtype.itemsize):
        raise TraceError(
            f"column {name} holds {given[1]} of {given[0]} in {given[2]} bytes; "
            f"expected {length} of {dtype.str}"
        )
    column = np.frombuffer(data, dtype, offset=match.end())
    if dtype == np.bool_:
        _within(name, column.view(np.uint8), 0, 2)
    return column


def _typed(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TraceError(f"{where} is {type(value).__name__}; expected {kind.__name__}")
    return value


def _count(value: object, where: str, end: int = 1 << 62) -> int:
    number: int = _typed(value, int, where)
    if not 0 <= number < end:
        raise TraceError(f"{where} is {number}; expected a number from 0 to {end - 1}")
    return number


def _list(value: object, where: str) -> list[Any]:
    return list(_typed(value, list, where))


def _texts(value: object, where: str) -> tuple[str, ...]:
    return tuple(_typed(text, str, where) for text in _list(value, where))


def _tables(tables: Mapping[str, Any]) -> Tables:
    texts = {
        name: _texts(tables.get(name), name)
        for name in ("ops", "overloads", "parameters", "dtypes")
    }
    frames = [_frame(frame) for frame in _list(tables.get("frames"), "frames")]
    stacks = _list(tables.get("stacks"), "stacks")
    shapes = _list(tables.get("shapes"), "shapes")
    sources = _typed(tables.get("sources"), dict, "sources")
    _texts(list(sources.values()), "sources")
    return Tables(
        **texts,
        modules=tuple(_module(module) for module in _list(tables.get("modules"), "modules")),
        stacks=tuple(
            tuple(frames[_count(row, "stacks", len(frames))] for row in _list(stack, "stacks"))
            for stack in stacks
        ),
        shapes=tuple(
            tuple(_count(size, "shapes") for size in _list(shape, "shapes")) for shape in shapes
        ),
        sources=sources,
    )


def _module(value: object) -> ModuleInfo:
    path, kind, aliases = _list(value, "modules")
    path, kind = _texts([path, kind], "modules")
    return ModuleInfo(path, kind, _texts(aliases, "modules"))


def _frame(value: object) -> Frame:
    file, line, function = _list(value, "frames")
    file, function = _texts([file, function], "frames")
    return Frame(file, _count(line, "frames"), function)


def _check_calls(trace: Trace) -> None:
    calls, tables = trace.calls, trace.tables
    ends = {
        "op": len(tables.ops),
        "overload": len(tables.overloads),
        "phase": len(PHASES),
        "module": len(tables.modules),
        "stack": len(tables.stacks),
        "flags": 1 << len(FLAGS),
    }
    for name, end in ends.items():
        _within(f"calls.{name}", calls[name], 0, end)
    _within("calls.number", calls["number"], 1, None)
    for name in ("module_call", "ordinal"):
        _within(f"calls.{name}", calls[name], 0, None)
    _within("calls.parameter", calls["parameter"], -1, len(tables.parameters))
    _within("calls.micro_batch", calls["micro_batch"], -1, None)
    _within("calls.cause", calls["cause"], -1, trace.call_count)
    if (calls["cause"] >= np.arange(trace.call_count)).any():
        raise TraceError("column calls.cause names a call that was made later")


def _check_sites(trace: Trace) -> None:
    columns, tables = trace.site_columns, trace.tables
    call = columns["call"]
    _within("sites.call", call, 0, trace.call_count)
    if (call[1:] < call[:-1]).any():
        raise TraceError("column sites.call is not in execution order")
    _within("sites.output", columns["output"], 0, None)
    _within("sites.index", columns["index"], -1, None)
    _within("sites.dtype", columns["dtype"], 0, len(tables.dtypes))
    _within("sites.shape", columns["shape"], 0, len(tables.shapes))
    _within("sites.parameter", columns["parameter"], -1, len(tables.parameters))
    for name in ("nan", "posinf", "neginf", "zeros"):
        _within(f"sites.{name}", columns[name], -1, None)
    first = trace.calls["first_site"]
    _within("calls.first_site", first, -1, len(trace) + 1)
    made, starts = np.unique(call, return_index=True)
    if (first[made] != starts).any():
        raise TraceError("column calls.first_site does not name the first site of each call")


def _check_inputs(trace: Trace) -> None:
    offsets, sites = trace.input_offsets, trace.input_sites
    _within("inputs.sites", sites, 0, len(trace))
    if offsets[0] != 0 or offsets[-1] != len(sites) or (offsets[1:] < offsets[:-1]).any():
        raise TraceError("column inputs.offsets does not divide the inputs among the calls")


def _within(name: str, column: np.ndarray, low: int, end: int | None) -> None:
    """Refuse a column that holds a number below ``low``, or from ``end`` on."""
    wrong = column < low
    if end is not None:
        wrong |= column >= end
    if wrong.any():
        row = int(np.argmax(wrong))
        limit = "up" if end is None else f"to {end - 1}"
        raise TraceError(f"column {name} holds {column[row]} in row {row}; expected {low} {limit}")
