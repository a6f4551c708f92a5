"""The page of injector.json is what the code says."""

from __future__ import annotations

from pathlib import Path

from fi_notebook.config.reference import reference
from fi_notebook.config.schema import RECORDS, meanings

PAGE = Path(__file__).parents[2] / "docs" / "injector_json.md"


def test_the_page_is_up_to_date() -> None:
    """Write it anew with ``python -m fi_notebook.config.reference docs/injector_json.md``."""
    assert PAGE.read_text("utf-8") == reference()


def test_every_key_of_a_fault_has_a_meaning() -> None:
    """A key is explained where its record is, once."""
    for form, record in RECORDS.items():
        unexplained = set(form.model_fields) - set(meanings(record)) - {"version", "direction"}
        assert not unexplained, form.__name__


def test_meanings_are_whole_sentences_of_the_docstring() -> None:
    """A meaning that runs over several lines of the docstring is one line here."""
    found = meanings(next(r for f, r in RECORDS.items() if f.__name__ == "FaultForm"))
    assert found["times"] == (
        "How many times it strikes at most, over the whole run; None is no limit."
    )
