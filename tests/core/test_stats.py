from __future__ import annotations

from dataclasses import fields

from fi_notebook.core.stats import STATISTICS, TensorStats


def test_nonfinite_counts_nan_and_both_infinities() -> None:
    """2 NaN + 3 Inf + 4 -Inf = 9 elements that are not finite."""
    stats = TensorStats("float32", (10, 10), -1.0, 1.0, 0.0, 0.5, 5.0, 2, 3, 4, 50)
    assert stats.nonfinite == 9


def test_the_statistics_are_the_records_own_fields() -> None:
    """The columns of a trace and the record name the same things in the same order."""
    assert tuple(field.name for field in fields(TensorStats)[2:]) == STATISTICS
