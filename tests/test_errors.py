from __future__ import annotations

import pytest

from fi_notebook import errors
from fi_notebook.errors import FiError, did_you_mean


@pytest.mark.parametrize(
    ("name", "choices", "expected"),
    [
        ("relo", ["relu", "mm"], "; did you mean 'relu'?"),
        ("stale", ["state", "stal", "mm"], "; did you mean 'stal' or 'state'?"),
        ("xyz", ["relu", "mm"], "; expected one of 'relu', 'mm'"),
        ("xyz", [], ""),
        ("xyz", [f"module.{n}" for n in range(13)], ""),
        ("relo", ["relu", "relu"], "; did you mean 'relu'?"),
    ],
)
def test_near_matches(name: str, choices: list[str], expected: str) -> None:
    """The nearest names, else a short list of all, else nothing."""
    assert did_you_mean(name, choices) == expected


def test_every_error_is_one_of_ours_and_most_are_value_errors() -> None:
    """A caller may catch `FiError`, or `ValueError` for what a person typed."""
    kinds = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert all(issubclass(kind, FiError) for kind in kinds)
    assert {k.__name__ for k in kinds if not issubclass(k, ValueError)} == {
        "FiError",
        "SessionError",
    }
