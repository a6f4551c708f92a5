"""Tables, and what stands in script elements."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from fi_notebook.report.html import allowed, html_table, script_json, script_text


def test_a_table_escapes_every_text_and_takes_drawn_cells_as_they_are() -> None:
    """A name from a model is no markup; a curve is."""
    assert html_table(("<a>",), [("<b>",)], drawn=["<svg/>"]) == (
        "<table><thead><tr><th>&lt;a&gt;</th></tr></thead>"
        "<tbody><tr><td>&lt;b&gt;</td><td><svg/></td></tr></tbody></table>"
    )


def test_what_would_end_its_script_element_is_written_otherwise_or_refused() -> None:
    """Data reads back as it was; a script that holds the end is an error."""
    written = script_json({"name": "</script><!--"})
    assert "<" not in written
    assert json.loads(written) == {"name": "</script><!--"}
    assert script_text("1 < 2") == "1 < 2"
    with pytest.raises(ValueError, match="holds the text '</script'"):
        script_text("x = '</SCRIPT>'")


def test_the_policy_allows_the_scripts_of_the_page_and_nothing_else() -> None:
    """By the SHA-256 of each."""
    digest = base64.b64encode(hashlib.sha256(b"1").digest()).decode()
    assert allowed(["1"]).startswith(f"default-src 'none'; script-src 'sha256-{digest}'; style-src")
