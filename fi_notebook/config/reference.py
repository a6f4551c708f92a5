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
Names as torch prints them (`aten.addmm.default`) are read too.

A step of a training loop begins at the first training forward after an optimizer of the model has
stepped, or a `GradScaler` skipped that, or `zero_grad` was called. One that stands behind the
forward, as where Lightning accumulates, and clears what the update before has spent, begins none.
Gradients that are cleared by hand (`p.grad = None`, `p.grad.zero_()`) are not seen: a loop that
steps no optimizer and calls no `zero_grad` is one step unless it is given `micro_batch_per_step`,
which is 1 without accumulation.

So an iteration with two updates (a GAN in one module, SAM, PPO) is two steps: number them so, or
give `micro_batch_per_step=` how many training forwards an iteration makes, each call of a part
counted; those without gradients or in evaluation mode are none. A forward with gradients that is
not trained on, as one that makes lazy parameters, is a step too: make it before, or under
`torch.no_grad()`.

A step goes on to the forward that begins the next. What comes after its update has its numbers
(the next batch, a metric, another model that trains in turns), but an operator alone (`div`)
chooses none of it that reads no parameter: name the call (`div*3`), or give `phases`. What runs
between the forward and the backward (a loss, a frozen teacher) is chosen; `"modules": [""]` keeps
to the model.

- `param:` and `buffer:` are struck before the first forward of a step, or before those of its
  `micro_batches`. With `scope` `value` they are given back before the optimizer that owns them
  steps, so that the update starts from the right values, or when the step ends (a `GradScaler`
  that skips it, gradients cleared after the backward, a forward in evaluation mode, the next
  step); with `micro_batches` already before the next forward.
- `grad:` is struck once in a step, before its optimizer steps: accumulated, unscaled and clipped
  as that finds it. To strike the gradient of one backward, name the call that makes it.
- `state:` is struck once, before its optimizer steps; not in the first step, which makes it.
  With `scope` `value` both are given back when the optimizer has stepped.
- An optimizer that is given a closure (`step(closure)`, as Lightning and skorch do) runs the model
  within its step. Its update begins when the closure has returned: there a gradient or state is
  struck, and a parameter given back. Of several evaluations (LBFGS) that is the first; to strike
  the gradient of a later one, name the call that makes it. One that never calls it is not struck.

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
  Ranks whose steps part, as with uneven inputs, would wait for each other for ever: it hangs. In a
  `Join` over a part of the model it is not made, and says so.
- What a communication hook of DDP does when its first collective is there (PowerSGD) may be done
  in a thread of the backend, where it is not seen: there a call's number differs from run to run.
  Choose such calls without one. `wrong_reduction` waits for each collective of the backward in its
  steps, and counts them alike.
- What `recv_` gets cannot be waited for: it is struck just before the first call that takes the
  buffer, a send or another receive included, and given up with a reason where none does by the end
  of the next step. Reading without a call (`numpy()`, `tolist()`) comes too early.
- With pipelining a stage receives before its forward, which begins the step: what it receives for
  micro batch 0 belongs to the step before, as its last receive, and is struck in that step's turn.
  Sends and receives have the phase of where they are made (`loss`, `other`), not of what they
  carry.
- The collectives that DTensor makes within its own operators are neither seen nor struck: of
  `relu` on a partial sum, say, or of `clip_grad_norm_` with FSDP2.
- An operator alone chooses what others make by it as well: `c10d::allgather_` the calls of
  `all_gather_object`, `c10d::broadcast_` that by which DDP agrees on its buckets in step 1.
- FSDP2 gives a sharded module another class: `Net` is `FSDPNet`, also for `--model`.
"""

PLAN = """
By default `ignore` is what makes no new values: `_local_scalar_dense`, `_unsafe_view`, `alias`,
`arange`, `as_strided`, `clone`, `detach`, `empty`, `empty_like`, `empty_permuted`,
`empty_quantized`, `empty_strided`, `expand`, `full`, `full_like`, `is_same_size`, `lift_fresh`,
`new_empty`, `new_empty_strided`, `ones`, `ones_like`, `profiler::_record_function_enter`,
`profiler::_record_function_enter_new`, `profiler::_record_function_exit`, `set_`, `slice`, `split`,
`squeeze`, `unsqueeze`, `view`, `zeros`, `zeros_like`.

A name in `modules` chooses a module and everything below it, in every phase: `layer`, a glob
(`layer.*.attn`), or `""`, the root and so the whole model. A parameter's name (`layer.0.weight`)
chooses the accumulation of its gradient and its update, `loss function` the calls of the loss
outside of the model. What a wrapper adds, `module.` (DDP) or `_orig_mod.` (torch.compile), may be
left out, or stand where there is no wrapper: also in targets (`param:layer.0.weight`) and anchors.
"""

INJECTOR = """
## The `Injector`

```python
from fi_notebook import Injector

injector = Injector("injector.json", model=net)  # a path, a mapping as in the file, or session.plan
```

| argument | meaning |
|---|---|
| `optimizer` | the model's optimizer, or several; found when they step if left out |
| `micro_batch_per_step` | how many forwards make a step; if left out, all up to an update |
| `start_step` | the number of the first step, where training is resumed |
| `rank` | the rank of this process; asked of `torch.distributed` if left out |
| `events` | a file of JSON lines: one a strike, then one a fault without any, and one at the end |
| `verbosity` | `quiet`, `normal` or `verbose`, in place of the plan's |

`injections`, `not_injected` (each with its reason), `step` and `report()` say how far it came.
It strikes until `close()`, the end of a `with` block or the end of the process; then the log says
which faults did not strike.

With gradient accumulation a step is all its micro batches, and calls are numbered through the
step: the second micro batch's `relu` is `relu*2`. `micro_batches` chooses by the number of the
forward, from 0, so that the operator alone is enough for a target:

```python
plan = {"version": 2, "faults": [
    {"target": "relu", "model": "zero", "steps": "1", "micro_batches": [1]}
]}
with Injector(plan, model=net, micro_batch_per_step=2) as injector:
    for _ in range(3):
        for half in (0, 1):
            loss = criterion(net(x[half::2]), y[half::2]) / 2
            loss.backward()
        opt.step()
        opt.zero_grad()
print(injector.report())
# 1 injection, training came to step 2
#   step 1: f1 struck relu*2:0, … elements changed
```

A checkpoint holds the injector's state, so that a resumed training counts on, also how often each
fault has struck (`times`); `start_step=2` alone counts the steps on:

```python
plan = {"version": 2, "faults": [{"target": "relu*1:0", "model": "zero", "times": 3}]}
with Injector(plan, model=net) as injector:
    step()
    step()
    checkpoint = {"model": net.state_dict(), "injector": injector.state_dict()}

with Injector(plan, model=net) as injector:  # in the resumed process
    injector.load_state_dict(checkpoint["injector"])
    step()
    step()
print(injector.report())
# 1 injection, training came to step 3
#   step 2: f1 struck relu*1:0, … elements changed
```

### The log

The package logs to `fi_notebook` at the level `INFO` and configures no logging, so of the two lines
alone nothing is seen. `logging.basicConfig(level=logging.INFO)` before them shows it:

```
INFO:fi_notebook:current step 1. Restart counting
INFO:fi_notebook:starting
INFO:fi_notebook:----------module names of the model----------
INFO:fi_notebook:body
INFO:fi_notebook:body.0
INFO:fi_notebook:body.1
INFO:fi_notebook:head
INFO:fi_notebook:forward start
INFO:fi_notebook:body.0*step1*t*1
INFO:fi_notebook:body.0*step1*addmm*1
INFO:fi_notebook:body.1*step1*relu*1
INFO:fi_notebook:injecting fault to relu*1:0
```

Logged are the steps in which a fault is due, and `log_steps`. So a place is found by the log alone:

1. `{"version": 2, "modules": [], "log_steps": [0]}` names the modules of the model, and no call.
2. `"modules": ["body"]` lists the calls of that part, and always those of the loss function.
3. The line `body.1*step0*relu*1` is the call `relu*1`: `"target": "relu*1:0"` is its first output.

In a script in which no line changes `fi-notebook trace train.py` lists all calls of step 0.
`fi-notebook run injector.json train.py` shows strikes alone, although `normal` is the default,
unless the plan has `log_steps` or `"verbosity": "verbose"`; with `-v` it shows the calls as well,
with `-vv` their shapes and source lines. With `-m package.train` in the place of the path either
runs a module, as `python -m` does. The first module that trains is the model, or what holds it and
all that its optimizer steps; `--model CLASS` asks for another. What it is, is the first line.
Steps are counted from the first one that the script makes: one that resumes a training at step 600
is run with `--start-step 600`. With `--micro-batch-per-step 4` four forwards make a step.
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
        PLAN,
        "\n### A fault\n\n",
        *_table(forms["FaultForm"]),
        "\n### An anchor\n\n",
        *_table(forms["AnchorForm"]),
        INJECTOR,
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


_PLURALS = {"a whole number": "whole numbers", "a mapping": "mappings", "text": "texts"}


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
        return "a list" if inner == "anything" else f"a list of {_PLURALS.get(inner, inner)}"
    words = {"integer": "a whole number", "number": "a number", "string": "text"}
    words |= {"boolean": "true or false", "object": "a mapping", "null": "null"}
    return f"`{part['const']}`" if "const" in part else words.get(part.get("type", ""), "anything")


if __name__ == "__main__":
    with written_whole(path_argument("Write the page on injector.json.")) as target:
        target.write(reference().encode())
