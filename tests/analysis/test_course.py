from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from fi_notebook.analysis.course import follow, pairs, relative
from tests.records import steps


def test_the_excess_is_a_share_of_the_golden_loss() -> None:
    """Losses 2, 2 and 2.5, 3: 25 % and 50 %; the rise is the larger, the end their last."""
    course = follow(steps([2, 2]), steps([2.5, 3.0]), 0)
    assert course.excess.tolist() == [0.25, 0.5]
    assert (course.rise, course.rise_step, course.final) == (0.5, 1, 0.5)


def test_a_small_golden_loss_counts_as_its_mean() -> None:
    """Golden 1.5 and 0.5 have the mean 1: 0.1 more than 0.5 is 10 %, not 20 %."""
    course = follow(steps([1.5, 0.5]), steps([1.5, 0.6]), 0)
    assert course.excess == pytest.approx([0.0, 0.1])


def test_steps_before_the_strike_do_not_count() -> None:
    """A fault of step 1 is followed from step 1 on."""
    assert follow(steps([2, 2, 2]), steps([9, 2, 3]), 1).excess.tolist() == [0.0, 0.5]


def test_a_slow_rise_is_measured_over_the_steps_of_a_sudden_one() -> None:
    """25 % a step: within 1 step, 50 % within 2, 75 % within 3; at least one is looked at."""
    golden, faulty = steps([2] * 4), steps([2.5, 3, 3.5, 4])
    assert follow(golden, faulty, 0, sudden=0).rise == follow(golden, faulty, 0, sudden=1).rise
    assert follow(golden, faulty, 0, sudden=1).rise == 0.25
    assert follow(golden, faulty, 0, sudden=2).rise == 0.5
    assert follow(golden, faulty, 0, sudden=3).rise == 0.75


def test_the_end_is_a_mean() -> None:
    """A quarter of 8 steps are the last two: (1 + 0.5) / 2."""
    faulty = steps([2] * 6 + [4, 3])
    assert follow(steps([2] * 8), faulty, 0).final == 0.75


def test_the_distance_is_measured_or_else_of_the_norms() -> None:
    """0.25 where measured; norms 10 and 11 are 0.1 apart."""
    golden = steps([2])
    assert follow(golden, steps([2], distances=0.25), 0).distance == 0.25
    assert follow(golden, steps([2], norms=11.0), 0).distance == pytest.approx(0.1)


def test_no_steps_make_an_empty_course() -> None:
    """A run that crashed at once has nothing to follow."""
    course = follow((), (), 0)
    assert (course.rise, course.final, course.largest) == (0, 0, 0)
    assert np.isnan(course.distance)


def test_relative_differences_of_numbers() -> None:
    """Equal is 0 with NaN too; anything from 0, or to Inf or NaN, is infinite."""
    cases = [(2, 3), (0, 0), (nan, nan), (inf, inf), (0, 1), (1, nan), (1, inf)]
    assert [relative(g, f) for g, f in cases] == [0.5, 0, 0, 0, inf, inf, inf]


def test_pairs_are_the_steps_of_both() -> None:
    """The faulty run crashed after step 3; golden began at 2."""
    both = pairs(steps([1, 1, 1], first=2), steps([1, 1], first=2))
    assert [(g.step, f.step) for g, f in both] == [(2, 2), (3, 3)]


def test_a_loss_that_nobody_can_compare_is_no_rise() -> None:
    """Golden and faulty are NaN from step 1 on: from half of it to NaN is nothing."""
    course = follow(steps([2, nan, nan]), steps([1, nan, nan]), 0)
    assert course.excess.tolist() == [-0.5, 0, 0]
    assert (course.rise, course.final) == (0, 0)
