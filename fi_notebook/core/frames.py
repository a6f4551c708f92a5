"""The one place that loads pandas, when a table is asked for.

    pd = pandas()
    pd.DataFrame({"site": ["relu*1:0"]})

Limits: what works without a table (text, figures, export) never asks for it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["pandas"]


def pandas() -> ModuleType:
    """The package pandas.

    Raises:
        ModuleNotFoundError: It is not installed; says how to install it.
    """
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a table is a DataFrame of pandas, which is not installed; "
            "install it with: pip install pandas",
            name=error.name,
        ) from error
