"""The page of injector.json is what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fi_notebook.config.reference import reference
from fi_notebook.config.schema import RECORDS, meanings
from fi_notebook.injector.log import DEFAULT_IGNORED

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


def test_the_page_names_every_operator_that_is_ignored_by_default() -> None:
    """Each of the injector's list, and no other."""
    (listed,) = re.findall(r"^By default `ignore` is .*?: (.*?)\.$", PAGE.read_text("utf-8"), _ALL)
    assert re.findall(r"`(.*?)`", listed) == sorted(DEFAULT_IGNORED)


def test_the_python_of_the_page_says_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accumulation and resuming run as they stand, and report what the comments say."""
    monkeypatch.chdir(tmp_path)
    Path("injector.json").write_text('{"version": 2, "faults": []}', "utf-8")
    names = _a_training()
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), _ALL):
        capsys.readouterr()
        exec(block, names)  # the page's own code
        expected = [line[2:] for line in block.splitlines() if line.startswith("# ")]
        printed = capsys.readouterr().out.splitlines()
        assert [re.sub(r"\d+ of \d+", "…", line) for line in printed] == expected
        names["injector"].close()


_ALL = re.MULTILINE | re.DOTALL


def _a_training() -> dict[str, Any]:
    """A person's own names: a model with one ReLU, its data, and a step."""
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    opt, criterion = torch.optim.SGD(net.parameters(), lr=0.1), nn.CrossEntropyLoss()
    x, y = torch.randn(16, 4), torch.randint(3, (16,))

    def step() -> None:
        criterion(net(x), y).backward()
        opt.step()
        opt.zero_grad()

    return {"net": net, "opt": opt, "criterion": criterion, "x": x, "y": y, "step": step}
