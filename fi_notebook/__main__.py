"""``python -m fi_notebook``, which is ``fi-notebook``."""

from __future__ import annotations

import sys

from fi_notebook.cli import main

if __name__ == "__main__":
    sys.exit(main())
