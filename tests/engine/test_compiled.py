from __future__ import annotations

import warnings

from fi_notebook.engine.compiled import ABOUT_HOOKS, HookWarning

SAID = "Using `torch.compile(module)` when there are global hooks on modules"


def heard() -> int:
    """How many of one warning of torch's come through."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn(SAID, UserWarning, stacklevel=1)
    return len(caught)


def test_the_warning_is_kept_away_until_the_last_is_detached() -> None:
    """Whichever of two is detached first; twice is once."""
    for first, second in ((0, 1), (1, 0)):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            before = list(warnings.filters)
            attached = [HookWarning(), HookWarning()]
            attached[first].allow()
            attached[first].allow()
            assert heard() == 0
            attached[second].allow()
            assert heard() == 1
            assert list(warnings.filters) == before


def test_a_persons_own_filter_stays() -> None:
    """The very same one, set before."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message=ABOUT_HOOKS)
        before = list(warnings.filters)
        HookWarning().allow()
        assert list(warnings.filters) == before
