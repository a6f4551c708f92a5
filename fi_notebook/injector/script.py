"""Running a training script in which no line was changed.

    run_script("injector.json", "train.py", ["--epochs", "1"])
    run_module("injector.json", "package.train", ["--epochs", "1"])

The first outermost module with trainable parameters that runs a training forward is the
model; where its optimizer steps more than it holds, as of a model whose parts are called one
by one, the smallest module that holds it and all of that. Or it is the first of the class that
``model`` names of which any part trains. Which it is, is logged. The injector attaches at that
forward, which is step 0. A class that does not exist by the first training forward ends the
script there.

Limits: a class that is made only after another model has begun to train is not waited for. See
also `injector.finding`.
"""

from __future__ import annotations

import logging
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.imports import importing_from
from fi_notebook.engine import attached
from fi_notebook.errors import SessionError, did_you_mean
from fi_notebook.injector.finding import Named, whole
from fi_notebook.injector.injector import Injector

__all__ = ["run_module", "run_script"]

logger = logging.getLogger("fi_notebook")


Config = str | Path | Mapping[str, Any] | FaultPlan


def run_script(
    config: Config,
    script: str | Path,
    args: Sequence[str] = (),
    *,
    model: str | None = None,
    **options: Any,
) -> Injector:
    """Run a script as ``python script args`` would, with an injector attached.

    Args:
        config: Path of ``injector.json``, what it holds, or a `FaultPlan`.
        script: Path of the training script.
        args: Its arguments.
        model: Class name of the model; that of the first module that trains if left out.
        **options: Further arguments of `Injector`.

    Returns:
        The injector, closed, with what it did.

    Raises:
        PlanError: The config cannot be read; the script has not begun.
        SessionError: No such model trained, or there is no such class.
        SystemExit: The script ended with another exit code than 0.
    """
    waiting = _Attach(FaultPlan.load(config), model, options)
    run = partial(runpy.run_path, str(script), run_name="__main__")
    return _trained(waiting, run, [str(script), *args], Path(script).resolve().parent)


def run_module(
    config: Config,
    module: str,
    args: Sequence[str] = (),
    *,
    model: str | None = None,
    **options: Any,
) -> Injector:
    """Run a module as ``python -m module args`` would, with an injector attached.

    Args:
        config: Path of ``injector.json``, what it holds, or a `FaultPlan`.
        module: Dotted name of the module, or of a package with a ``__main__``; looked for in
            the current folder first.
        args: Its arguments.
        model: Class name of the model; that of the first module that trains if left out.
        **options: Further arguments of `Injector`.

    Returns:
        The injector, closed, with what it did.

    Raises:
        PlanError: The config cannot be read; the module has not begun.
        ImportError: There is no such module.
        SessionError: No such model trained, or there is no such class.
        SystemExit: The module ended with another exit code than 0.
    """
    waiting = _Attach(FaultPlan.load(config), model, options)
    run = partial(runpy.run_module, module, run_name="__main__", alter_sys=True)
    return _trained(waiting, run, [module, *args], Path.cwd())


def _trained(
    waiting: _Attach, run: Callable[[], Any], argv: Sequence[str], folder: Path
) -> Injector:
    """Run a main program while its model is waited for."""
    handle = register_module_forward_pre_hook(waiting)
    attached.add(waiting)
    before = sys.argv
    sys.argv = list(argv)
    try:
        with importing_from(folder):
            _to_its_end(run)
    except _NoSuchClassError as unknown:
        raise SessionError(str(unknown)) from None  # the script is not to blame
    finally:
        handle.remove()
        attached.discard(waiting)
        sys.argv = before
        if waiting.injector is not None:
            waiting.injector.close()
    if waiting.injector is None:
        raise SessionError(
            f"{waiting.missing()} made a training forward in {argv[0]}; {waiting.seen()}"
        )
    return waiting.injector


def _to_its_end(run: Callable[[], Any]) -> None:
    """Run a program; that it exits with 0 is an end as any other."""
    try:
        run()
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


class _NoSuchClassError(BaseException):
    """The model's class is a mistake; no script catches this by accident."""


class _Attach:
    """The hook that waits for the model."""

    looks_only = False

    def __init__(self, plan: FaultPlan, model: str | None, options: dict[str, Any]) -> None:
        self.injector: Injector | None = None
        self._plan, self._options = plan, options
        self._named = Named(model) if model else None
        self._classes: set[str] = set()
        self._looks = True

    def __call__(self, module: nn.Module, _inputs: Any) -> None:
        if self.injector is not None or not (self._looks and self._trains(module)):
            return
        if self._named is not None and not self._classes:
            _check_class(self._named.name)
        self._classes.add(type(module).__name__)
        model = whole(module) if self._named is None else self._named.model(module)
        if model is None:
            return
        logger.info("the model is %s", type(model).__name__)
        self.injector = Injector(self._plan, model=model, **self._options)
        self.injector.attach_to_running_forward(module)

    def concerns(self, _model: nn.Module) -> bool:
        """Whether it could take a session's run for training."""
        return True

    def look_away(self) -> None:
        """A session runs: its model does not train."""
        self._looks = False

    def look_again(self) -> None:
        """The session is done."""
        self._looks = True

    def hook_last(self) -> None:
        """It looks for a model alone; when it is told does not matter."""

    @staticmethod
    def _trains(module: nn.Module) -> bool:
        return (
            module.training
            and torch.is_grad_enabled()
            and any(parameter.requires_grad for parameter in module.parameters())
        )

    def missing(self) -> str:
        """What did not train, for the error."""
        if self._named is None:
            return "no module with parameters"
        return f"no module of class {self._named.name!r}, nor a part of one,"

    def seen(self) -> str:
        """The classes that did train, for the error."""
        if not self._classes:
            return "no module trained at all"
        return f"these did: {', '.join(sorted(self._classes))}"


def _check_class(name: str) -> None:
    """Refuse the name of a class that no module can have, before anything trains."""
    names, waiting = set(), [nn.Module]
    while waiting:
        found = waiting.pop()
        names.add(found.__name__)
        waiting += found.__subclasses__()
    if name not in names:
        raise _NoSuchClassError(
            f"there is no class {name!r} of a module{did_you_mean(name, names)}"
        )
