from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build
from fi_notebook.analysis.mechanisms import Death, deaths, deaths_words, growth_words
from fi_notebook.core.masking import DIED_OF, MECHANISMS, Evidence
from fi_notebook.core.run import COMPARISON_COLUMNS, Comparison
from tests.records import CHANGED_LOSS, EQUAL_LOSS
from tests.traces import Call
from tests.traces import build as trace_of

SEEN, FIRST, OTHERS = Evidence.SEEN, Evidence.FIRST, Evidence.OTHERS


def masked(
    op: str, evidence: Evidence = SEEN | FIRST, *, changed: int = 1, **call: str
) -> Comparison:
    """A struck Linear whose error the next call masks."""
    trace = trace_of(
        Call("addmm", "fc"),
        Call("bernoulli_", "drop"),
        Call(op, "act", inputs=(0, 1), **call),  # type: ignore[arg-type]  # words only
    )
    measures = {"changed": np.array([changed, 0, 0.0]), "relative_l2": np.array([0.5, 0, 0])}
    seen = np.array([0, 0, evidence], dtype=np.uint16)
    return build(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS, evidence=seen)


@pytest.mark.parametrize(
    ("op", "evidence", "expected"),
    [
        ("relu", Evidence(0), "ReLU at zero"),
        ("relu_", Evidence(0), "ReLU at zero"),
        ("threshold_backward", SEEN | FIRST, "ReLU at zero"),
        ("threshold_backward", FIRST, "ReLU at zero"),
        ("threshold_backward", Evidence(0), "unknown"),
        ("threshold_backward", SEEN | OTHERS, "unknown"),
        ("threshold_backward", SEEN | OTHERS | Evidence.SLOPE, "comparison"),
        ("threshold_backward", SEEN | OTHERS | Evidence.FACTOR, "multiplication by zero"),
        ("threshold_backward", SEEN | FIRST | OTHERS, "unknown"),
        ("hardtanh_backward", FIRST, "saturation"),
        ("hardtanh_backward", SEEN | OTHERS | Evidence.SLOPE, "comparison"),
        ("max_pool2d_with_indices", Evidence(0), "pooling"),
        ("max_pool2d_with_indices", SEEN | FIRST | Evidence.OUTSIDE, "selection"),
        ("avg_pool2d", SEEN | FIRST | Evidence.OUTSIDE, "selection"),
        ("clamp_", Evidence(0), "clipping"),
        ("clamp", SEEN | OTHERS, "unknown"),  # the bound changed
        ("tanh", SEEN | FIRST | Evidence.LIMIT, "saturation"),
        ("tanh", SEEN | FIRST | Evidence.ROUNDED, "rounding"),
        ("tanh", SEEN | FIRST, "unknown"),
        ("tanh", Evidence(0), "unknown"),
        ("exp", SEEN | FIRST | Evidence.LIMIT | Evidence.ROUNDED, "rounding"),  # of 1e-9: 1
        ("exp", SEEN | FIRST | Evidence.LIMIT | Evidence.ZERO, "saturation"),
        ("tanh_backward", SEEN | FIRST | Evidence.ZERO, "saturation"),
        (
            "tanh_backward",
            SEEN | OTHERS | Evidence.ZERO | Evidence.FACTOR,
            "multiplication by zero",
        ),
        ("mul", SEEN | FIRST | Evidence.FACTOR, "dropout mask"),
        ("mul", SEEN | FIRST | Evidence.ROUNDED, "rounding"),
        ("mul", SEEN | FIRST | OTHERS | Evidence.SIGN, "sign dropped"),
        ("mul", SEEN | FIRST, "unknown"),
        ("mul", Evidence(0), "unknown"),
        ("div", SEEN | OTHERS | Evidence.FACTOR, "multiplication by zero"),
        ("pow", SEEN | FIRST | Evidence.SIGN, "sign dropped"),
        ("addcmul", SEEN | OTHERS | Evidence.SIGN, "sign dropped"),
        ("_softmax", SEEN | FIRST | Evidence.ROUNDED, "rounding"),
        ("masked_fill", Evidence(0), "mask"),
        ("masked_fill", SEEN | OTHERS, "unknown"),  # another mask
        ("where", SEEN | FIRST, "unknown"),  # another condition
        ("where", SEEN | OTHERS, "mask"),
        ("embedding", SEEN | OTHERS, "unknown"),  # another row of the same values
        ("copy_", SEEN | FIRST, "overwritten"),
        ("copy_", FIRST, "overwritten"),
        ("copy_", SEEN | OTHERS, "unknown"),  # of the same dtype: nothing to round
        ("abs", SEEN | FIRST | Evidence.SIGN, "sign dropped"),
        ("add", SEEN | FIRST, "cancelling or rounding"),
        ("add", SEEN | FIRST | Evidence.NONFINITE, "already NaN or Inf"),
        ("argmax", Evidence(0), "comparison"),
        ("zero_", Evidence(0), "overwritten"),
        ("somebodys::operator", SEEN | FIRST, "unknown"),
        ("convolution", SEEN | FIRST, "unknown"),
        ("convolution", SEEN | FIRST | Evidence.ROUNDED, "rounding"),
        ("mm", SEEN | FIRST, "cancelling or rounding"),
    ],
)
def test_the_mechanism_of_a_masking_call(op: str, evidence: Evidence, expected: str) -> None:
    """From the operator, and from what was seen; unknown rather than a guess."""
    compared = masked(op, evidence)
    assert compared.effect(2) == "masked"
    assert compared.mechanism(2) == expected
    assert deaths(compared) == [Death(2, expected)]
    assert deaths_words(compared) == f"the error died in {op}*1 ({DIED_OF[expected]})"


def test_a_cast_rounds_only_where_it_has_fewer_bits() -> None:
    """float32 to bfloat16 rounds; to itself it does not."""
    assert masked("_to_copy", Evidence(0), dtype="bfloat16").mechanism(2) == "rounding in a cast"
    assert masked("_to_copy", Evidence(0)).mechanism(2) == "unknown"


def test_normalisation_takes_out_what_all_elements_share() -> None:
    """6 of 6 elements changed: a shift or a scale; 1 of 6 was rounded away."""
    assert masked("native_layer_norm", changed=6).mechanism(2) == "normalisation"
    assert masked("native_layer_norm", SEEN | FIRST | Evidence.ROUNDED).mechanism(2) == "rounding"


def test_a_call_that_reads_shapes_masks_nothing() -> None:
    """``zeros_like`` of a struck tensor is not masked, and not introduced either."""
    compared = masked("zeros_like")
    assert compared.effect(2) == "equal"
    assert deaths_words(compared) == ""


def test_many_deaths_are_told_by_the_first_and_the_last() -> None:
    """Three calls; two would both be named."""
    trace = trace_of(
        Call("addmm", "fc"),
        *(Call(op, "act", inputs=(0,)) for op in ("relu", "clamp", "argmax")),
    )
    measures = {"changed": np.array([1, 0, 0, 0.0]), "relative_l2": np.array([0.5, 0, 0, 0])}
    compared = build(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS)
    assert deaths_words(compared) == (
        f"the error died in 3 calls, first in relu*1 ({DIED_OF['ReLU at zero']}), "
        f"last in argmax*1 ({DIED_OF['comparison']})"
    )


def test_a_call_that_passes_the_error_on_in_another_output_is_no_death() -> None:
    """Max pooling masks its values, while its indices differ: the error is not gone there."""
    trace = trace_of(
        Call("addmm", "fc"),
        Call("max_pool2d_with_indices", "pool", inputs=(0,), outputs=((2, 3), (2, 3))),
    )
    measures = {"changed": np.array([1, 0, 1.0]), "relative_l2": np.array([0.5, 0, 0.1])}
    compared = build(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS)
    assert (compared.effect(1), compared.effect(2)) == ("masked", "attenuated")
    assert deaths_words(compared) == ""


def test_an_error_that_lives_on_elsewhere_died_in_part() -> None:
    """A ReLU masks it, the loss differs all the same."""
    compared = replace(masked("relu"), loss=CHANGED_LOSS)
    assert deaths_words(compared).startswith("part of the error died in relu*1 (")


def test_growth_beyond_a_million_is_told_in_words() -> None:
    """From 1e-7 to 8e37 is 8e44 times."""
    trace = trace_of(Call("addmm", "fc"), Call("log", "act", inputs=(0,)))
    measures = {"changed": np.array([6, 6.0]), "relative_l2": np.array([1e-7, 8e37])}
    compared = build(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS)
    assert growth_words(compared) == (
        "the error grew most in log*1:0 (more than a million times, from 1e-07 to 8e+37)"
    )


def test_growth_names_the_call_and_the_factor() -> None:
    """From 0.011 to 0.4: 36.36 times."""
    trace = trace_of(Call("addmm", "fc"), Call("log", "act", inputs=(0,)))
    measures = {"changed": np.array([6, 6.0]), "relative_l2": np.array([0.011, 0.4])}
    compared = build(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS)
    assert compared.columns["growth"][1] == pytest.approx(0.4 / 0.011)
    assert growth_words(compared) == (
        "the error grew most in log*1:0 (36.36 times, from 0.011 to 0.4)"
    )
    assert growth_words(masked("relu")) == ""


def test_growth_is_never_that_of_a_second_fault() -> None:
    """The second fault struck addmm, 50 times the error that came in; log grew by 3 times."""
    trace = trace_of(
        Call("relu", "act"), Call("addmm", "fc", inputs=(0,)), Call("log", "fc", inputs=(1,))
    )
    measures = {"changed": np.full(3, 6.0), "relative_l2": np.array([0.01, 0.5, 1.5])}
    struck = np.array([True, True, False])
    compared = build(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS, struck=struck)
    assert growth_words(compared) == "the error grew most in log*1:0 (3 times, from 0.5 to 1.5)"


def test_every_mechanism_has_its_words_and_a_code() -> None:
    """Codes fit the column; the first means that nothing was masked."""
    assert MECHANISMS[0] == ""
    assert len(MECHANISMS) <= 256
    assert COMPARISON_COLUMNS["mechanism"] is np.uint8
