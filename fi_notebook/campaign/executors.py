"""Executors by what a command line says of them: this process, processes, a cluster.

    with executor_of(workers=4) as executor: …
    with executor_of(dask="tcp://scheduler:8786") as executor: …

Limits: on GPUs give one worker per device, each with its own ``CUDA_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from fi_notebook.campaign.draws import CampaignError, check_whole

__all__ = ["executor_of", "processes"]


def processes(workers: int) -> ProcessPoolExecutor:
    """Worker processes that inherit no threads and no open files.

    On Linux they are forked from a server process that has torch imported and nothing else
    done, so that a worker, or one in place of a dead one, is there at once.

    Args:
        workers: How many.

    Returns:
        The pool; shut it down, or use it as a context manager.

    Raises:
        CampaignError: The number of workers is no whole number from 1.
    """
    check_whole(workers=workers)
    if sys.platform != "linux":
        return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fi_notebook.campaign.worker"])
    return ProcessPoolExecutor(workers, mp_context=context)


@contextmanager
def executor_of(workers: int = 0, dask: str | None = None) -> Iterator[Executor | None]:
    """The executor for a number of workers, or for a Dask cluster; None is this process.

    Raises:
        CampaignError: The package for a Dask cluster is not installed, or the number of
            workers is no whole number from 0.
    """
    check_whole(0, workers=workers)
    if dask:
        try:
            distributed = importlib.import_module("distributed")
        except ModuleNotFoundError as error:
            raise CampaignError(
                "a Dask cluster needs the package distributed; "
                "install it with: pip install 'fi-notebook[campaign]'"
            ) from error
        with distributed.Client(dask) as client:
            yield client.get_executor()
    elif workers:
        with processes(workers) as pool:
            yield pool
    else:
        yield None
