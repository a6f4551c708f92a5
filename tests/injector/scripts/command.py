"""The command line as a script."""

import sys

from fi_notebook.cli import main

sys.exit(main())
