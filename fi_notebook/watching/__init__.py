"""Watching a training loop: statistics of chosen tensors, step by step.

`training` reads them in a person's own loop, `recording` keeps them, and `watching` is
what a person holds: golden runs, the current run, tables and pictures. Nothing here needs
a screen; the live view is in ``fi_notebook.ui``.
"""

from fi_notebook.watching.watching import Watching, choices_of

__all__ = ["Watching", "choices_of"]
