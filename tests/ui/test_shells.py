"""IPython as it runs here."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from fi_notebook.ui.shells import bound_name


def test_an_object_is_called_what_the_notebook_calls_it(interpreter: InteractiveShell) -> None:
    """By the oldest name, the usual one first; names of IPython's own are none."""
    value = object()
    names = interpreter.user_ns
    assert bound_name(value, "session") == "session"
    names["_"] = value
    assert bound_name(value, "session") == "session"
    names["fi_session"] = names["mine"] = value
    assert bound_name(value, "session") == "fi_session"
    names["session"] = object()
    assert bound_name(value, "session") == "fi_session"
    names["session"] = value
    assert bound_name(value, "session") == "session"
