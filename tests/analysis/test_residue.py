from __future__ import annotations

import numpy as np
import pytest

from fi_notebook.analysis.residue import cancelled, noise, share
from fi_notebook.core.run import Difference
from tests.records import comparison
from tests.traces import Call, build


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", 2e-14),
        ("float32", 1e-5),
        ("complex64", 1e-5),
        ("float16", 2**-11),
        ("bfloat16", 2**-8),
        ("float8_e4m3fn", 2**-4),
        ("float8_e8m0fnu", 0.0),
        ("int64", 0.0),
        ("", 0.0),
    ],
)
def test_the_share_is_that_of_the_rounding_of_a_dtype(dtype: str, expected: float) -> None:
    """Half the distance from 1 to the next number: 2^-11 after 10 bits of mantissa."""
    assert share(dtype) == expected


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float32",), {"k.bias"}),  # 2e-6 is below 1e-5, 4e-5 is not
        (("float32", "bfloat16"), {"k.bias", "v.bias"}),  # both are below 0.0039
        (("float64",), set()),
        (("bool",), {"k.bias"}),
    ],
)
def test_a_gradient_is_noise_by_the_lowest_dtype_of_the_backward_pass(
    dtypes: tuple[str, ...], expected: set[str]
) -> None:
    """Golden norms of at most √4 · 1e-6 / 1 = 2e-6, 4e-5 and at least 0.01 / 0.01 = 1."""
    calls = [Call("mm", "fc", "backward", dtype=dtype) for dtype in dtypes]
    trace = build(Call("mm", "fc", dtype="float8_e5m2"), *calls)
    gradients = [
        Difference("k.bias", False, 4, 4, relative_l2=1.0, max_abs=1e-6),
        Difference("v.bias", False, 4, 4, relative_l2=1.0, max_abs=2e-5),
        Difference("o.weight", False, 4, 4, relative_l2=0.01, max_abs=0.01),
        Difference("bad", False, 4, 4, relative_l2=1.0, max_abs=1e-9, new_nan=1),
    ]
    assert noise(trace, gradients) == expected


@pytest.mark.parametrize(
    ("into", "out", "expected"),
    [
        ("float32", "float32", False),
        ("bfloat16", "bfloat16", True),
        ("bfloat16", "float32", True),
        ("float32", "bfloat16", True),
        ("float32", "int64", False),
    ],
)
def test_what_is_left_of_large_inputs_is_judged_by_the_lowest_dtype_of_a_call(
    into: str, out: str, expected: bool
) -> None:
    """1e-3 of the input's norm is rounding in bfloat16 (0.0039), and not in float32 (1e-5)."""
    trace = build(Call("mm", dtype=into), Call("sum", inputs=(0,), dtype=out))
    trace.site_columns["norm"][:] = 1.0, 1e-3
    assert np.array_equal(cancelled(comparison({}, trace)), [False, expected])
