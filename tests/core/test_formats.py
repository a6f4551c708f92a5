"""The one table of bit layouts, and the page's copy of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from fi_notebook import assets
from fi_notebook.core.formats import FORMATS, Format, field_words

BITS = Path(assets.__file__).parent / "explorer" / "bits.js"
SMALL = [name for name, layout in FORMATS.items() if (layout.kind, layout.bits) == ("float", 8)]
_READ = f"""
import {{ FLOATS, decodeBits, fieldOf, width }} from {json.dumps(BITS.as_uri())};
const fields = (dtype) => Array.from({{ length: width(dtype) }}, (_, bit) => fieldOf(dtype, bit));
const values = (dtype) => Array.from({{ length: 256 }}, (_, bits) => {{
  const value = decodeBits(dtype, BigInt(bits));
  return Object.is(value, -0) ? "-0" : String(value);
}});
const all = (names, read) => Object.fromEntries(names.map((name) => [name, read(name)]));
console.log(JSON.stringify({{
  fields: all({json.dumps(list(FORMATS))}, fields), values: all({json.dumps(SMALL)}, values),
  biases: all(Object.keys(FLOATS), (name) => FLOATS[name][3]),
}}));
"""


@cache
def page() -> Any:
    """What the page's own table says of every dtype."""
    node = shutil.which("node")
    assert node, "node was not found: the JavaScript tests need Node.js 18 or later"
    command = [node, "--input-type=module", "--eval", _READ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def fields(layout: Format) -> list[str]:
    """The field of each bit, from the lowest; none where an element is no one word."""
    return [layout.field_of(bit) for bit in range(layout.bits)] if layout.parts == 1 else []


def test_the_page_has_the_same_layouts() -> None:
    """Every bit of every dtype is of the same field there, and every bias is the same."""
    assert page()["fields"] == {name: fields(layout) for name, layout in FORMATS.items()}
    floats = {name: layout.bias for name, layout in FORMATS.items() if layout.kind == "float"}
    assert page()["biases"] == floats


@pytest.mark.parametrize("dtype", SMALL)
def test_the_page_reads_each_small_float_as_torch_does(dtype: str) -> None:
    """All 256 patterns of the five formats of 8 bits; NaN, Inf and -0 too."""
    patterns = torch.arange(256, dtype=torch.int64).to(torch.uint8)
    expected = patterns.view(getattr(torch, dtype)).double().tolist()
    found = [float(text.replace("Infinity", "inf")) for text in page()["values"][dtype]]
    assert [value.hex() for value in found] == [value.hex() for value in expected]


@pytest.mark.parametrize("dtype", [name for name, one in FORMATS.items() if one.kind == "float"])
def test_the_bias_is_the_stored_exponent_of_one(dtype: str) -> None:
    """1.0 is stored with the exponent's bits equal to the bias and all others 0."""
    layout, one = FORMATS[dtype], torch.ones(1).to(getattr(torch, dtype))
    carrier = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[layout.bits]
    assert int(one.view(carrier)) == layout.bias << layout.fields["exponent"][0]


@pytest.mark.parametrize(
    ("dtype", "bits", "words"),
    [
        ("float32", 30, " (exponent)"),
        ("bfloat16", [15, 14, 7], " (sign, exponent)"),
        ("int8", 7, " (sign)"),
        ("complex64", 31, " (sign)"),
        ("float16", 30, ""),
        ("", 3, ""),
        ("float32", None, ""),
        ("float32", [], ""),
    ],
)
def test_the_fields_of_bits_stand_behind_their_numbers(dtype: str, bits: Any, words: str) -> None:
    """Each once; none where the dtype is not known or has no such bit."""
    assert field_words(dtype, bits) == words
