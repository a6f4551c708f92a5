from __future__ import annotations

from math import inf

from fi_notebook.analysis.findings import findings
from fi_notebook.core.run import Comparison, Difference
from tests.records import comparison
from tests.traces import Call, build

GONE = tuple(Difference(name, False, 6, 6, relative_l2=1.0) for name in ("fc.weight", "fc.bias"))
CLIP = build(Call("mm", "fc", "backward"), Call("linalg_vector_norm", "", "other", outputs=((),)))


def clipped(**after: object) -> Comparison:
    """A step whose gradients were clipped by an infinite norm."""
    compared = comparison({"linalg_vector_norm*1:0": 0.0}, CLIP, **after)
    compared.columns["new_inf"][1] = 1
    return compared


def test_a_weight_that_became_nan_is_no_distance_away() -> None:
    """6 NaN are told as such, not as a relative L2 of 0."""
    moved = (Difference("l.weight", False, 6, 6, 0.0, new_nan=6), Difference("l.bias", False, 2, 2))
    found = findings(comparison({}, parameters=moved))
    assert found[-1].endswith("2 of 2 parameters differ after the update, most l.weight (6 NaN)")


def test_equal_runs_have_no_findings() -> None:
    """Nothing to say."""
    assert findings(comparison({})) == ()


def test_an_infinite_second_moment_freezes_weights() -> None:
    """Named with how many elements; other state with an Inf is no second moment."""
    state = (
        Difference("fc.weight.exp_avg_sq", False, 2, 6, new_inf=2),
        Difference("fc.weight.exp_avg", False, 2, 6, 0.5),
    )
    assert findings(comparison({}, optimizer_state=state)) == (
        (
            "optimizer state fc.weight.exp_avg_sq holds 2 new Inf in 6 elements: "
            "the update divides by it, so that gradients move these weights no more"
        ),
    )


def test_of_many_second_moments_the_worst_two_are_named() -> None:
    """24 infinite ones and 4 huge ones are one sentence each, with how many more there are.

    In how many elements they differ is said where it was counted.
    """
    infinite = [Difference(f"p{n}.exp_avg_sq", False, 6, 6, new_inf=1000 + n) for n in range(24)]
    huge = [Difference(f"q{n}.exp_avg_sq", False, 6 * (n == 3), 6, 1e6 * (n + 1)) for n in range(4)]
    assert findings(comparison({}, optimizer_state=(*infinite, *huge))) == (
        (
            "optimizer state p23.exp_avg_sq holds 1,023 new Inf in 6 elements, p22.exp_avg_sq "
            "holds 1,022 new Inf in 6 elements and 22 more: the update divides by them, so that "
            "gradients move these weights no more"
        ),
        (
            "optimizer state q3.exp_avg_sq is more than a million times its golden norm away (6 of "
            "6 elements differ), q2.exp_avg_sq is more than a million times its golden norm away "
            "and 2 more: the update divides by their roots, so where it is that large a weight "
            "hardly moves any more"
        ),
    )


def test_a_huge_second_moment_is_named_from_a_stated_factor() -> None:
    """1e12 times is; the limit is an argument."""
    state = (Difference("fc.weight.exp_avg_sq", False, 2, 6, 1e12),)
    compared = comparison({}, optimizer_state=state)
    assert findings(compared) == (
        (
            "optimizer state fc.weight.exp_avg_sq is more than a million times its golden norm "
            "away (2 of 6 elements differ): the update divides by its root, so where it is that "
            "large a weight hardly moves any more"
        ),
    )
    assert findings(compared, grew=1e13) == ()


def test_a_second_moment_that_was_zero_or_infinite_is_not_called_huge() -> None:
    """1e-12 is infinitely far from a golden 0, and a number from Inf; neither stops a weight."""
    state = (Difference("fc.weight.exp_avg_sq", False, 6, 6, inf),)
    assert findings(comparison({}, optimizer_state=state)) == ()


def test_a_clipped_infinite_norm_zeroes_every_gradient() -> None:
    """Every gradient is exactly one norm away, and the norm call gave Inf."""
    assert findings(clipped(gradients=GONE)) == (
        (
            "every gradient became zero: clipping divided by an infinite norm "
            "(linalg_vector_norm*1:0), so this step moves no weight by its gradient"
        ),
    )


def test_gradients_that_merely_changed_are_not_called_zero() -> None:
    """One gradient 0.9 norms away: clipping did not zero it."""
    changed = (GONE[0], Difference("fc.bias", False, 3, 3, 0.9))
    assert findings(clipped(gradients=changed)) == ()


def test_the_gradient_norm_itself_can_show_it() -> None:
    """Where no norm call was traced (clipping by hand)."""
    norm = Difference("gradient norm", False, 1, 1, new_inf=1, golden=1.0, faulty=inf)
    text = findings(comparison({}, gradients=GONE, gradient_norm=norm))[0]
    assert "(the gradient norm)" in text


def test_escaped_to_weights_names_the_worst() -> None:
    """2 of 3 differ; the worse one is named."""
    parameters = (
        Difference("a", equal=True),
        Difference("b", False, 1, 4, 0.25),
        Difference("c", False, 1, 4, 0.5),
    )
    assert findings(comparison({}, parameters=parameters)) == (
        "escaped to weights: 2 of 3 parameters differ after the update, most c (relative L2 0.5)",
    )


def test_nonfinite_parameters_and_buffers_are_named() -> None:
    """With how many of each, and what it means."""
    buffer = Difference("norm.running_var", False, 1, 3, new_inf=1)
    parameter = Difference("fc.weight", False, 1, 6, new_nan=4)
    texts = findings(comparison({}, buffers=(buffer,), parameters=(parameter,)))
    assert texts[1] == (
        "new NaN or Inf in parameter fc.weight (4 NaN, 0 Inf): every later step works with them"
    )
    assert texts[0].startswith("new NaN or Inf in buffer norm.running_var (0 NaN, 1 Inf)")
