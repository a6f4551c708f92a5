"""Every picture as a plotly figure: pure functions of the records.

    values(site, tensor)           the values of one output
    tensor_diff(injection)         histograms before and after
    difference_heatmap(injection)  where in the tensor, and by how much
    scatter(injection)             golden against faulty values
    propagation(comparison)        the error of every call in execution order
    gradients(comparison)          gradients and parameters by name
    tree_heat(comparison)          modules by phase
    ranks({rank: comparison})      ranks by phase
    training(run)                  loss, norms, metrics over the steps
    watched(run, golden_runs)      statistics of watched tensors over the steps

Each takes ``dark=``; to re-theme a figure that exists, replace its template by
``theme(dark)``: no mark changes its colour. Each has a twin in ``report/text.py``,
that of ``watched`` in ``report/text_watched.py``.
"""

from plotly.graph_objects import Figure

from fi_notebook.report.figures.histogram import tensor_diff
from fi_notebook.report.figures.look import theme
from fi_notebook.report.figures.spread import propagation
from fi_notebook.report.figures.tensors import difference_heatmap, scatter, values
from fi_notebook.report.figures.training import training
from fi_notebook.report.figures.update import gradients, ranks, tree_heat
from fi_notebook.report.figures.watched import watched

__all__ = [
    "Figure",
    "difference_heatmap",
    "gradients",
    "propagation",
    "ranks",
    "scatter",
    "tensor_diff",
    "theme",
    "training",
    "tree_heat",
    "values",
    "watched",
]
