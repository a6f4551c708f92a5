"""The page ``docs/injector_json.md``, written from the forms and the records.

    python -m fi_notebook.config.reference docs/injector_json.md

Every key of both forms of the file, what it takes, its default and what it means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fi_notebook.config.forms import FirstForm
from fi_notebook.config.schema import schema
from fi_notebook.core.files import path_argument, written_whole

__all__ = ["reference"]

HEAD = """# injector.json

Written from the code by `python -m fi_notebook.config.reference`; do not edit.

One loader reads both forms of the file. Unknown keys and names that are nearly right are
refused with the place, what stood there and a suggestion. `fi-notebook schema` prints the
JSON schema; the [fault models](fault_models.md) have a page of their own.

## Version 2: a list of faults

```json
{
  "version": 2,
  "faults": [
    {"target": "relu*2:0", "model": "bitflip", "parameters": {"bit": 30},
     "elements": {"index": [0, 3]}, "steps": "100-200:10"}
  ]
}
```

A target is an operator (`addmm`: every call), a call (`addmm*3`: every output), an output
(`addmm*3:0`), one tensor of a list (`_foreach_add_*1:0[3]`), an overload (`add.Tensor*2`),
another namespace (`c10d::allreduce_*1`), a call that takes no number of the step
(`other/mul*1`), or a stored tensor: `param:`, `buffer:`, `grad:` or `state:` and its name,
which may be a glob; a parameter with several names, as where weights are tied, has them all.

A step begins at the first training forward after an optimizer of the model stepped or its
gradients were cleared. So an iteration with two updates (a GAN in one module, SAM, PPO) is two
steps: number them so, or give `micro_batch_per_step=` how many training forwards an iteration
makes, each call of a part counted; those without gradients or in evaluation mode are none. A
forward with gradients that is not trained on, as one that makes lazy parameters, is a step too:
make it before, or under `torch.no_grad()`.

A step of a training loop goes on to the next training forward. What comes after its update has its
numbers (the next batch, a metric), but an operator alone (`div`) chooses none of it that reads no
parameter: name the call (`div*3`), or give `phases`.

- `param:` and `buffer:` are struck before the first forward of a step, or before those of its
  `micro_batches`. With `scope` `value` they are given back before the optimizer that owns them
  steps, so that the update starts from the right values, or when the step ends (a `GradScaler`
  that skips it, gradients cleared after the backward, a forward in evaluation mode, the next
  step); with `micro_batches` already before the next forward.
- `grad:` is struck once in a step, before its optimizer steps: accumulated, unscaled and clipped
  as that finds it. To strike the gradient of one backward, name the call that makes it.
- `state:` is struck once, before its optimizer steps; not in the first step, which makes it.
  With `scope` `value` both are given back when the optimizer has stepped.

`stale` and `stale_buffer` take what the same call was given in the step before, each call of its
own, so they cannot strike in the first step of a run, nor of one that was resumed. There a call
that is named by its number has what the operator's call before it was given, if that fits.

What was written in the meantime is not given back: the momentum that an optimizer makes of a
struck one, the running statistics that a forward makes. With `scope` `storage` nothing is.

### Collectives and several ranks

Every rank is to have the same plan; `ranks` chooses where a fault strikes. A collective goes wrong
on the ranks that are struck, after the call; with `scope` `contribution`, or a model of the
[collectives](fault_models.md#collectives), what one rank gives goes wrong before it. Where only the
root gets or gives something, only the root is struck. `elements` are those of a rank's own tensor:
of a shard, its own part.

- A collective is waited for where it is struck, and where `stale` learns what it gave, which is
  in the step before already. Ranks that meet only because it is asynchronous would wait for ever;
  a warning names the call. What a rank gives (`contribution`, `drop_rank`) needs no wait.
- `wrong_reduction` makes one more small collective at every call of its operator in its steps,
  which all ranks must count alike. By it the ranks of the group find out whether they all mean the
  call; where they do not, none of them strikes, and each says so. Ranks that make other calls
  number them otherwise; where a model names a rank (`drop_rank`), the number is that of this rank.
- What `recv_` gets cannot be waited for: it is struck just before the first call that takes the
  buffer, a send or another receive included, and given up with a reason where none does by the end
  of the next step. Reading without a call (`numpy()`, `tolist()`) comes too early.
- With pipelining a stage receives before its forward, which begins the step: what it receives for
  micro batch 0 belongs to the step before, as its last receive, and is struck in that step's turn.
- An operator alone chooses what others make by it as well: `c10d::allgather_` the calls of
  `all_gather_object`, `c10d::broadcast_` that by which DDP agrees on its buckets in step 1.
- FSDP2 gives a sharded module another class: `Net` is `FSDPNet`, also for `--model`.
"""

FIRST = """
## The first form: one fault model for several targets

```json
{
  "targets": ["addmm*1:0", "t"],
  "modules": ["layer.layers"],
  "code": ["run.py[83]"],
  "steps": [4],
  "error_type": "light",
  "direction": "both"
}
```

`modules` and `code` are both to hold. An empty `modules` injects nothing and logs the names
of the modules; an empty `code` is everywhere; empty `targets` only log. `direction` is
`forward` (with the loss), `backward`, `both` of these, `optimizer` or `recompute`.
"""


_MEANINGS = {
    "version": "The form of the file.",
    "direction": "Phases by the first form's word; `phases` says it exactly.",
    "targets": "Which calls and outputs; each is struck.",
    "steps": "In which steps, counted from 0.",
    "error_type": "Name of the fault model.",
    "modules": "Module filter; empty injects nothing.",
    "code": "Source-line filter; empty is everywhere.",
}
"""What keys mean that no record explains."""


def reference() -> str:
    """The page as Markdown."""
    found = schema()
    forms = found["$defs"]
    parts = [
        HEAD,
        "\n### The plan\n\n",
        *_table(forms["PlanForm"]),
        "\n### A fault\n\n",
        *_table(forms["FaultForm"]),
        "\n### An anchor\n\n",
        *_table(forms["AnchorForm"]),
        FIRST,
        "\n",
        *_table(forms[FirstForm.__name__]),
    ]
    return "".join(parts)


def _table(form: dict[str, Any]) -> Iterator[str]:
    yield "| key | takes | default | meaning |\n|---|---|---|---|\n"
    required = form.get("required", ())
    for key, part in form["properties"].items():
        default = "required" if key in required else f"`{json.dumps(part.get('default'))}`"
        meaning = (part.get("description") or _MEANINGS.get(key, "")).replace("|", "\\|")
        meaning = meaning.replace("None", "null").replace("False", "false")
        yield f"| `{key}` | {_takes(part)} | {default} | {meaning} |\n"


def _takes(part: dict[str, Any]) -> str:
    """What a value may be, in a few words."""
    if "enum" in part:
        few = len(part["enum"]) <= 8  # more than that is a page of its own
        return ", ".join(f"`{choice}`" for choice in part["enum"]) if few else "a name"
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_takes(choice) for choice in part["anyOf"]))
    if "$ref" in part:
        return "a mapping"
    if part.get("type") == "array":
        inner = _takes(part.get("items", {}))
        return "a list" if inner == "anything" else f"a list of {inner}"
    words = {"integer": "a whole number", "number": "a number", "string": "text"}
    words |= {"boolean": "true or false", "object": "a mapping", "null": "null"}
    return f"`{part['const']}`" if "const" in part else words.get(part.get("type", ""), "anything")


if __name__ == "__main__":
    with written_whole(path_argument("Write the page on injector.json.")) as target:
        target.write(reference().encode())
