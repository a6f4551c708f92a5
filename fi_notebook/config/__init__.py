"""``injector.json`` and plans: reading either form of the file, writing version 2.

The first form, one fault model for several targets::

    {
        "targets": ["addmm", "t"],
        "modules": ["layer.layers"],
        "code": ["run.py[83]"],
        "steps": [4],
        "error_type": "light",
        "direction": "both",
    }

Version 2, a list of faults, each with its own place, elements, trigger and seed::

    {
        "version": 2,
        "faults": [
            {
                "target": "relu*2:0",
                "model": "bitflip",
                "parameters": {"bit": 31},
                "elements": {"index": [0, 3]},
                "steps": 0,
            }
        ],
    }

In the first form an empty ``modules`` injects nothing and logs the names of the modules,
an empty ``code`` is everywhere, and empty ``targets`` only log. A ``modules`` that is
left out is no filter. Whatever cannot be is refused with its place::

    injector.json: faults[0].stepz: unknown key; did you mean 'steps'?

Limits: modules, operators and source lines are not known without a model; they are
judged when the plan meets one.
"""

from fi_notebook.config.forms import DIRECTIONS, VERSION
from fi_notebook.config.plans import is_plan, load, save, to_dict
from fi_notebook.config.schema import schema

__all__ = ["DIRECTIONS", "VERSION", "is_plan", "load", "save", "schema", "to_dict"]
