"""What every figure of an injection has in common: its title and its values."""

from __future__ import annotations

import numpy as np

from fi_notebook.core.injection import ElementChange, Injection
from fi_notebook.core.words import among
from fi_notebook.report.arrays import values_of
from fi_notebook.report.figures.look import DOT, plain, short
from fi_notebook.report.numbers import shape_text

__all__ = ["changed_words", "title_of", "values_and_note"]


def title_of(injection: Injection, what: str) -> str:
    """The title of a figure of one injection, escaped."""
    return f"{short(injection.site)} {what}"


def changed_words(injection: Injection) -> str:
    """How many elements changed: the first clause of every subtitle."""
    numel = int(np.prod(injection.before.shape, dtype=np.int64))
    return f"{among(injection.changed, numel, 'element')} changed"


def values_and_note(injection: Injection) -> tuple[np.ndarray, np.ndarray, str]:
    """All values before and after, or of the kept elements, and what to say of them."""
    site = injection.site
    about = DOT.join(
        (
            changed_words(injection),
            f"{short(injection.fault)} in step {injection.step}",
            f"{plain(site.dtype)}, {shape_text(injection.before.shape)}",
        )
    )
    whole = values_of(injection)
    if whole is not None:
        return whole[0].ravel(), whole[1].ravel(), about
    kept = [_plain_values(change) for change in injection.elements]
    before, after = np.asarray(kept, dtype=float).reshape(-1, 2).T
    return before, after, f"{about}{DOT}only the {len(kept)} kept elements: no tensors at hand"


def _plain_values(change: ElementChange) -> tuple[float, float]:
    both = (change.before, change.after)
    first, second = (float(abs(v)) if isinstance(v, complex) else float(v) for v in both)
    return first, second
