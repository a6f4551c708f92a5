"""fi_notebook: faults injected into PyTorch training, and what they do, in a notebook.

    import fi_notebook as fi

    session = fi.Session(step, model=net, optimizer=opt)
    trace = session.trace()
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3]}, bit=30)
    print(session.replay().outcome)

Names are loaded when they are first used: importing the package loads neither plotly
nor anywidget, IPython or pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fi_notebook import errors, faults
    from fi_notebook.analysis import detectors
    from fi_notebook.analysis.compare import compare
    from fi_notebook.analysis.tolerance import Tolerance
    from fi_notebook.campaign import Campaign
    from fi_notebook.core.fault import Fault, FaultPlan
    from fi_notebook.core.run import Run
    from fi_notebook.core.site import Site
    from fi_notebook.core.trace import Trace
    from fi_notebook.injector import Injector
    from fi_notebook.magics import load_ipython_extension, unload_ipython_extension
    from fi_notebook.session import Session
    from fi_notebook.ui.doctor import doctor
    from fi_notebook.ui.watch import watch

_HOMES = {
    "Campaign": "fi_notebook.campaign",
    "Fault": "fi_notebook.core.fault",
    "FaultPlan": "fi_notebook.core.fault",
    "Injector": "fi_notebook.injector",
    "Run": "fi_notebook.core.run",
    "Session": "fi_notebook.session",
    "Site": "fi_notebook.core.site",
    "Tolerance": "fi_notebook.analysis.tolerance",
    "Trace": "fi_notebook.core.trace",
    "compare": "fi_notebook.analysis.compare",
    "doctor": "fi_notebook.ui.doctor",
    "load_ipython_extension": "fi_notebook.magics",
    "unload_ipython_extension": "fi_notebook.magics",
    "watch": "fi_notebook.ui.watch",
}

_ROOMS = {
    "detectors": "fi_notebook.analysis.detectors",
    "errors": "fi_notebook.errors",
    "faults": "fi_notebook.faults",
}

__all__ = [
    "Campaign",
    "Fault",
    "FaultPlan",
    "Injector",
    "Run",
    "Session",
    "Site",
    "Tolerance",
    "Trace",
    "compare",
    "detectors",
    "doctor",
    "errors",
    "faults",
    "load_ipython_extension",
    "unload_ipython_extension",
    "watch",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home when it is first asked for."""
    if name in _ROOMS:
        return import_module(_ROOMS[name])
    home = _HOMES.get(name)
    if home is None:
        from fi_notebook.errors import did_you_mean

        raise AttributeError(f"fi_notebook has no {name!r}{did_you_mean(name, __all__)}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
