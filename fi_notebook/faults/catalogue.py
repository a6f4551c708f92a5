"""The page ``docs/fault_models.md``, written from the registry.

    python -m fi_notebook.faults.catalogue docs/fault_models.md

Each model with an example, its parameters, what it does to integers, where it comes from,
and its effect on ``[1.0, -2.5, 0.0, 3e-4]`` in float32 and bfloat16, computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch

from fi_notebook.core.files import path_argument, written_whole
from fi_notebook.errors import FaultError
from fi_notebook.faults.corrupt import corrupt
from fi_notebook.faults.elements import selections
from fi_notebook.faults.parameters import Parameter
from fi_notebook.faults.registry import OWN, Context, FaultModel, models
from fi_notebook.faults.seeds import generator

__all__ = ["catalogue", "effect"]

SAMPLE = (1.0, -2.5, 0.0, 3e-4)
EARLIER = (0.5, -1.0, 0.25, 2e-4)
"""What the documentation takes as the value before, or as an input, for call models."""

RANKS = 4
REDUCED = {
    "drop_rank": RANKS - 1,
    "duplicate_rank": RANKS + 1,
    "corrupt_rank": RANKS - 2,
    "stale_buffer": RANKS - 1,
    "wrong_reduction": 1,
}
"""What a sum over four ranks that all hold the sample becomes, as a multiple of it."""

NARROW = {"bit": 14, "length": 3, "mask": "0x8080"}
"""Example parameters for bfloat16 where those for float32 have no such bit."""

HEAD = """# Fault models

Written from the registry by `python -m fi_notebook.faults.catalogue`; do not edit.

Effects are on the sample `[1.0, -2.5, 0.0, 3e-4]`, all elements, seed 0. Bits count from 0, the
least significant. Call models are shown with `[0.5, -1.0, 0.25, 2e-4]` as the value before or as
the input: `skip_update` and `duplicate` strike an `add_` that made the sample of it, so that a
second one adds the same once more. Collectives are shown as a sum over four ranks that all hold
the sample (clean: four times the sample; a stale contribution is taken as zeros). `swap_rows`,
which needs two rows, takes the sample as 2 × 2.

In code: `session.arm(site, "scale", factor=1.5)`, or on a tensor by itself
`fi.faults.apply(tensor, "scale", factor=1.5)`. In `injector.json`:
`{"model": "scale", "parameters": {"factor": 1.5}}`. No model changes the dtype, device or
strides of a tensor. Sparse, nested and quantised tensors are refused.
"""

OWN_MODELS = """
## Your own

A value model is a pure function; its keyword-only arguments are its parameters:

```python
@fi.faults.register("my_fault")
def my_fault(values, ctx, *, gain: float = 2.0):
    \"\"\"Every chosen value times a gain.\"\"\"
    return values * gain
```

`values` has one dimension and must come back in the same shape and dtype. Draw from
`ctx.generator` alone, on its device; `ctx.tensor` is the whole tensor, `ctx.indices` the flat
indices of the chosen elements (None: all). A name is given once; `replace=True` replaces a
model of your own. A package offers its models under the entry-point group
`fi_notebook.faults`, in its `pyproject.toml`:

```toml
[project.entry-points."fi_notebook.faults"]
my_fault = "my_package:my_fault"
```
"""


def catalogue() -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *_model_pages(), *_element_page(), OWN_MODELS])


def _model_pages() -> Iterator[str]:
    built_in = (model for model in models() if model.group != OWN)
    for group, members in groupby(built_in, key=lambda model: model.group):
        yield f"## {group.capitalize()}\n"
        for model in members:
            yield from _page(model)


def _page(model: FaultModel) -> Iterator[str]:
    yield f"### {model.name}\n"
    yield f"{model.summary}\n"
    yield f"- Example: `{_call(model, model.example)}`"
    for parameter in model.parameters:
        yield f"- `{parameter.name}` ({_domain(parameter)}): {parameter.summary}"
    if model.needs:
        yield f"- Needs: {', '.join(model.needs)} (a call model; not for `apply`)"
    yield f"- Integers: {model.integers}"
    if model.source:
        yield f"- Source: {model.source}"
    yield ""
    yield "| dtype | effect |"
    yield "|---|---|"
    for dtype in (torch.float32, torch.bfloat16):
        yield f"| {str(dtype).removeprefix('torch.')} | {effect(model, dtype)} |"
    yield ""


def _call(model: FaultModel, parameters: Any) -> str:
    return f"{model.name}({', '.join(f'{key}={value!r}' for key, value in parameters.items())})"


def _domain(parameter: Parameter) -> str:
    """Type, range and default of a parameter, in words."""
    words = [parameter.type]
    if parameter.choices:
        words = ["one of " + ", ".join(map(repr, parameter.choices))]
    if parameter.low is not None and parameter.high is not None:
        words.append(f"{parameter.low} to {parameter.high}")
    elif parameter.low is not None:
        words.append(f"at least {parameter.low}")
    if parameter.required:
        words.append("required")
    elif parameter.default is not None:
        words.append(f"default {parameter.default!r}")
    return ", ".join(words)


def effect(model: FaultModel, dtype: torch.dtype) -> str:
    """What the example of a model makes of the sample, as text."""
    sample = torch.tensor(SAMPLE, dtype=torch.float32, device="cpu").to(dtype)
    if model.name in REDUCED:
        return _shown(sample * REDUCED[model.name])
    if model.name == "swap_rows":
        sample = sample.view(2, 2)
    earlier = torch.tensor(EARLIER, dtype=torch.float32, device="cpu").to(dtype).view(sample.shape)
    twice = sample + (sample - earlier)  # what a second in-place addition leaves
    previous = twice if model.name == "duplicate" else earlier
    given = Context(inputs=(earlier,), previous=previous)
    parameters = dict(model.example)
    try:
        corruption = corrupt(sample, model.name, parameters, "all", generator(0), given)
    except FaultError:  # a bit that only the wider dtype has
        parameters |= {key: NARROW[key] for key in parameters if key in NARROW}
        if "length" in parameters:
            parameters["bit"] = 4
        corruption = corrupt(sample, model.name, parameters, "all", generator(0), given)
    note = "" if parameters == model.example else f" with `{_call(model, parameters)}`"
    shape = " of the sample as 2 × 2" if sample.dim() == 2 else ""
    return _shown(corruption.after) + shape + note


def _shown(values: torch.Tensor) -> str:
    return "`[" + ", ".join(f"{value:.6g}" for value in values.double().tolist()) + "]`"


def _element_page() -> Iterator[str]:
    yield "## Elements\n"
    yield "Which elements of the tensor are struck; the same in Python and JSON.\n"
    yield "| selection | written as | meaning |"
    yield "|---|---|---|"
    for selection in selections():
        written = ", ".join(f"`{_json(example)}`" for example in selection.examples)
        yield f"| {selection.name} | {written} | {selection.summary} |"


def _json(example: Any) -> str:
    import json

    return json.dumps(example, ensure_ascii=False)


if __name__ == "__main__":
    with written_whole(path_argument("Write the page on fault models.")) as target:
        target.write(catalogue().encode())
