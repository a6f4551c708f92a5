"""Faults in a real training loop, headless: two lines in a training script.

    from fi_notebook import Injector
    injector = Injector("injector.json", model=model, micro_batch_per_step=k)

`injector` is what the script holds, `log` what it says while it trains, and `script`
runs a training script in which no line was changed.
"""

from fi_notebook.injector.injector import Injector
from fi_notebook.injector.script import run_module, run_script

__all__ = ["Injector", "run_module", "run_script"]
