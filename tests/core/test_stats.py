from __future__ import annotations

from dataclasses import fields

import numpy as np

from fi_notebook.core.stats import STATISTICS, TensorStats, nonfinite_count


def test_nonfinite_counts_nan_and_both_infinities() -> None:
    """2 NaN + 3 Inf + 4 -Inf = 9 elements that are not finite."""
    stats = TensorStats("float32", (10, 10), -1.0, 1.0, 0.0, 0.5, 5.0, 2, 3, 4, 50)
    assert stats.nonfinite == 9


def test_the_statistics_are_the_records_own_fields() -> None:
    """The columns of a trace and the record name the same things in the same order."""
    assert tuple(field.name for field in fields(TensorStats)[2:]) == STATISTICS


def test_what_was_not_looked_at_is_not_counted() -> None:
    """1 + 2 + 3 = 6 of the first site; of the second no statistics were taken, which is -1."""
    columns = {name: np.array([n, -1]) for n, name in enumerate(("nan", "posinf", "neginf"), 1)}
    assert nonfinite_count(columns).tolist() == [6, 0]
