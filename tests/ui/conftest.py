"""A traced session, and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer
from tests import models
from tests.ui.bridge import Bridge, bridged

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Open = Callable[..., AbstractContextManager[Bridge]]


def traced(case: models.Case | None = None) -> Session:
    """A session of a small case, traced."""
    case = case or models.cnn(seed=3)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    return session


@pytest.fixture
def session() -> Session:
    """A traced session of the small CNN."""
    return traced()


@pytest.fixture
def shown(chromium: Browser) -> Open:
    """Opens a page on an explorer of a session; fails on any console error."""

    @contextmanager
    def open_page(session: Any, **options: Any) -> Iterator[Bridge]:
        with bridged(chromium, **options) as bridge:
            explorer = Explorer(session)
            bridge.show(explorer)
            bridge.page.locator(".fi-row").first.wait_for()
            yield bridge
            assert explorer.executor.wait(20)
            explorer.close()
            assert not bridge.errors, bridge.errors

    return open_page
