"""What the processes of a group do; each function gets its rank and the group's size.

Every scenario returns plain JSON: values, what struck (`_told`) and why what did not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as functional

from fi_notebook import Campaign, Injector, Session, faults
from fi_notebook.errors import SessionError

Plan = dict[str, Any]
distributed: Any = dist  # much of it is unannotated


def _told(injector: Injector) -> dict[str, Any]:
    return {
        "struck": [[str(i.site), i.step, i.kind, i.changed] for i in injector.injections],
        "ranks": [i.rank for i in injector.injections],
        "missed": {n.fault: n.reason for n in injector.not_injected},
        "warned_of": [n.fault for n in injector.not_injected if not n.elsewhere],
    }


def _ones_model() -> tuple[nn.Module, Tensor]:
    model = nn.Linear(1, 1, bias=False)
    return model, torch.ones(1, 1)


def all_reduces(rank: int, size: int, plan: Plan, give: list[float], **options: Any) -> Any:
    """One all-reduce after another in step 0; call k sums ``give[k] + rank``."""
    model, x = _ones_model()
    got = []
    with Injector(plan, model=model, **options) as injector:
        model(x)
        for base in give:
            value = torch.full((2,), base + rank)
            dist.all_reduce(value)
            got.append(value.tolist())
    return {"got": got, **_told(injector)}


def all_reduce_of(rank: int, size: int, plan: Plan, kind: str, op: str) -> Any:
    """An all-reduce of truths, the second of which is true on rank 1 alone, or of a sparse row."""
    model, x = _ones_model()
    value = torch.tensor([True, rank == 1, False])
    if kind == "sparse":
        value = torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.tensor([rank + 1.0]), (size,))
    with Injector(plan, model=model) as injector:
        model(x)
        dist.all_reduce(value, op=getattr(dist.ReduceOp, op))
    return {"got": value.to_dense().tolist(), **_told(injector)}


def uneven(rank: int, size: int, plan: Plan, members: list[int]) -> Any:
    """An all-reduce of rank + 1 by some ranks, then two by all, of 100 and 1000 times that."""
    group = dist.new_group(members)
    model, x = _ones_model()
    got = []
    with Injector(plan, model=model) as injector:
        model(x)
        for factor in (1.0, 100.0, 1000.0):
            value = torch.full((4,), factor * (rank + 1))
            if factor > 1:
                dist.all_reduce(value)
            elif rank in members:
                dist.all_reduce(value, group=group)
            got.append(value.tolist())
    return {"got": got, **_told(injector)}


def trained(rank: int, size: int, plan: Plan, ops: list[str], steps: int) -> Any:
    """Training in which step s makes some collectives, call c of 100 * rank + 10 * s + c."""
    model, x = _ones_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    got = []
    with Injector(plan, model=model) as injector:
        for step in range(steps):
            loss = model(x).sum()
            for number, op in enumerate(ops, 1):
                got += _move(op, torch.full((size,), 100.0 * rank + 10 * step + number))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return {"got": got, **_told(injector)}


def _move(op: str, value: Tensor) -> list[float]:
    """One collective of a value; what it gives, the same of every element."""
    result = value
    if op == "all_reduce":
        dist.all_reduce(value)
    elif op == "all_reduce of one":
        result = value[:1]
        dist.all_reduce(result)
    elif op == "broadcast":
        dist.broadcast(value, 1)
    elif op == "reduce":
        dist.reduce(value, 1)
    else:
        result = torch.zeros(1)
        dist.reduce_scatter_tensor(result, value)
    return sorted(set(result.tolist()))


def trained_all_reduces(rank: int, size: int, plan: Plan, steps: int) -> Any:
    """Training with one all-reduce a step, of ``10 * step + rank``."""
    model, x = _ones_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    got = []
    with Injector(plan, model=model) as injector:
        for step in range(steps):
            value = torch.full((1,), float(10 * step + rank))
            loss = model(x).sum()
            dist.all_reduce(value)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            got.append(value.item())
    return {"got": got, **_told(injector)}


def asynchronous(rank: int, size: int, plan: Plan, async_op: bool = True) -> Any:
    """An asynchronous all-reduce, waited for by the script as well; warnings of the package."""
    model, x = _ones_model()
    value = torch.full((2,), float(rank))
    said = _Said()
    with Injector(plan, model=model) as injector, said:
        model(x)
        work = dist.all_reduce(value, async_op=async_op)
        if async_op:
            work.wait()
    return {"got": value.tolist(), "warned": said.texts, **_told(injector)}


class _Said(logging.Handler):
    """Warnings of the package, while it is entered."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> None:
        logging.getLogger("fi_notebook").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("fi_notebook").removeHandler(self)


def _each(*values: float) -> list[Tensor]:
    return [torch.tensor([value]) for value in values]


def _all_reduce(rank: int) -> tuple[Any, Any]:
    value = torch.tensor([rank + 1.0])
    dist.all_reduce(value)
    return value, None


def _all_reduce_coalesced(rank: int) -> tuple[Any, Any]:
    value = _each(rank + 1.0, 10 * (rank + 1.0))
    with distributed.distributed_c10d._coalescing_manager():
        for one in value:
            dist.all_reduce(one)
    return value, None


def _broadcast(rank: int) -> tuple[Any, Any]:
    value = torch.tensor([rank + 1.0])
    dist.broadcast(value, 1)
    return value, None


def _all_gather(rank: int) -> tuple[Any, Any]:
    value, got = torch.tensor([rank + 1.0]), _each(0.0, 0.0)
    dist.all_gather(got, value)
    return got, value


def _all_gather_into(rank: int) -> tuple[Any, Any]:
    value, got = torch.tensor([rank + 1.0]), torch.zeros(2)
    dist.all_gather_into_tensor(got, value)
    return got, value


def _reduce(rank: int) -> tuple[Any, Any]:
    value = torch.tensor([rank + 1.0])
    dist.reduce(value, 1)
    return (value if rank == 1 else torch.zeros(1)), None


def _reduce_scatter(rank: int) -> tuple[Any, Any]:
    value, got = _each(rank + 1.0, 10 * (rank + 1.0)), torch.zeros(1)
    dist.reduce_scatter(got, value)
    return got, value


def _reduce_scatter_base(rank: int) -> tuple[Any, Any]:
    value, got = torch.tensor([rank + 1.0, 10 * (rank + 1.0)]), torch.zeros(1)
    dist.reduce_scatter_tensor(got, value)
    return got, value


def _scatter(rank: int) -> tuple[Any, Any]:
    value, got = (_each(5.0, 7.0) if rank == 1 else None), torch.zeros(1)
    dist.scatter(got, value, 1)
    return got, value


def _gather(rank: int) -> tuple[Any, Any]:
    value, got = torch.tensor([rank + 1.0]), _each(0.0, 0.0)
    dist.gather(value, got if rank == 1 else None, 1)
    return got, value


def _all_to_all(rank: int) -> tuple[Any, Any]:
    value, got = torch.tensor([rank + 1.0, 10 * (rank + 1.0)]), torch.zeros(2)
    dist.all_to_all_single(got, value)
    return got, value


def _send(rank: int) -> tuple[Any, Any]:
    """Rank 1 sends 2 to rank 0, which reads it."""
    value = torch.tensor([rank + 1.0])
    if rank == 1:
        dist.send(value, 0)
        return value, None
    got = torch.zeros(1)
    dist.recv(got, 1)
    return got * 1, None


def _send_to_any(rank: int) -> tuple[Any, Any]:
    """Rank 1 sends 2; rank 0 takes it from whoever sends."""
    value = torch.tensor([rank + 1.0])
    if rank == 1:
        dist.send(value, 0)
        return value, None
    got = torch.zeros(1)
    dist.recv(got)
    return got * 1, None


def _funcol_all_reduce(rank: int) -> tuple[Any, Any]:
    value = torch.tensor([rank + 1.0])
    return functional.all_reduce(value, "sum", distributed.group.WORLD) * 1, value


def _funcol_all_gather(rank: int) -> tuple[Any, Any]:
    value = torch.tensor([rank + 1.0])
    return functional.all_gather_tensor(value, 0, distributed.group.WORLD) * 1, value


def _funcol_reduce_scatter(rank: int) -> tuple[Any, Any]:
    value = torch.tensor([rank + 1.0, 10 * (rank + 1.0)])
    return functional.reduce_scatter_tensor(value, "sum", 0, distributed.group.WORLD) * 1, value


def _wait_tensor(rank: int) -> tuple[Any, Any]:
    value, name = torch.tensor([rank + 1.0]), distributed.group.WORLD.group_name
    pending = torch.ops._c10d_functional.all_reduce(value, "sum", name)
    return torch.ops._c10d_functional.wait_tensor(pending), value


CALLS: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "c10d::allreduce_": _all_reduce,
    "c10d::allreduce_coalesced_": _all_reduce_coalesced,
    "c10d::broadcast_": _broadcast,
    "c10d::allgather_": _all_gather,
    "c10d::_allgather_base_": _all_gather_into,
    "c10d::reduce_": _reduce,
    "c10d::reduce_scatter_": _reduce_scatter,
    "c10d::_reduce_scatter_base_": _reduce_scatter_base,
    "c10d::scatter_": _scatter,
    "c10d::gather_": _gather,
    "c10d::alltoall_base_": _all_to_all,
    "c10d::send": _send,
    "c10d::recv_": _send,
    "c10d::recv_any_source_": _send_to_any,
    "_c10d_functional::all_reduce": _funcol_all_reduce,
    "_c10d_functional::all_gather_into_tensor": _funcol_all_gather,
    "_c10d_functional::reduce_scatter_tensor": _funcol_reduce_scatter,
    "_c10d_functional::wait_tensor": _wait_tensor,
}


def collective(rank: int, size: int, plan: Plan, op: str) -> Any:
    """One call of every kind; what it gave, and what this rank gave to it afterwards."""
    model, x = _ones_model()
    with Injector(plan, model=model) as injector:
        model(x)
        got, given = CALLS[op](rank)
    return {"got": _numbers(got), "given": _numbers(given), **_told(injector)}


def _numbers(value: Any) -> Any:
    if value is None:
        return None
    tensors = [value] if isinstance(value, Tensor) else value
    return [number for tensor in tensors for number in tensor.reshape(-1).tolist()]


def ring(rank: int, size: int, plan: Plan, batched: bool) -> Any:
    """Every rank receives before it sends: what waits on either stops for ever."""
    model, x = _ones_model()
    buffer, value = torch.zeros(2), torch.full((1,), rank + 1.0)
    after, before = (rank + 1) % size, (rank - 1) % size
    with Injector(plan, model=model) as injector:
        model(x)
        halves = buffer[:1], buffer[1:]
        if batched:
            ops = [dist.P2POp(dist.irecv, halves[0], before), dist.P2POp(dist.isend, value, after)]
            works = dist.batch_isend_irecv(ops)
        else:
            works = [distributed.irecv(halves[0], before), distributed.isend(value, after)]
        works += [distributed.irecv(halves[1], before), distributed.isend(value, after)]
        views = buffer[:1], buffer[1:]  # looks, reads nothing
        for work in works:
            work.wait()
        got = torch.cat(views)
    return {"got": got.tolist(), "sent": value.tolist(), **_told(injector)}


def data_parallel(rank: int, size: int, plan: Plan, steps: int, cap_mb: float = 25) -> Any:
    """DDP over two Linears without bias; loss = sum of outputs, lr = 1, all weights 0.

    The gradient of ``a`` on rank r is (r + 1) (1, 2), that of ``b`` is (r + 1) (3, 4).
    """

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False)

        def forward(self, scale: Tensor) -> Tensor:
            return self.a(scale * torch.tensor([[1.0, 2.0]])) + self.b(
                scale * torch.tensor([[3.0, 4.0]])
            )

    inner = Two()
    for parameter in inner.parameters():
        nn.init.zeros_(parameter)
    model = nn.parallel.DistributedDataParallel(inner, bucket_cap_mb=cap_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    gradients = []
    with Injector(plan, model=model) as injector:
        for _ in range(steps):
            model(torch.tensor(rank + 1.0)).sum().backward()
            gradients.append([_numbers(p.grad) for p in model.parameters()])
            optimizer.step()
            optimizer.zero_grad()
        sites = [str(i.site) for i in injector.injections]
    weights = [_numbers(p.detach()) for p in model.parameters()]
    return {"gradients": gradients, "weights": weights, "sites": sites, **_told(injector)}


def _data_parallel_session(rank: int, steps_before: int, *, drifts: bool = False) -> Session:
    """A session on DDP over a Linear; where it drifts, rank 1 makes a number of its own."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = [0]

    def step() -> Tensor:
        made[0] += 1
        x = torch.full((2, 4), rank + 1.0)
        loss = model(x).pow(2).mean()
        if drifts and rank == 1:
            x * made[0]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(steps_before):
        step()
    return Session(step, model=model, optimizer=optimizer)


def data_parallel_session(rank: int, size: int, steps_before: int, drifts: bool = False) -> Any:
    """What a replay on DDP says, and the sum of rank + 1 afterwards, which all make together."""
    session = _data_parallel_session(rank, steps_before, drifts=drifts)
    session.trace()
    session.arm("addmm*1:0", "zero", ranks=[1])
    try:
        said = session.replay().outcome.name
    except SessionError as error:
        said = str(error)
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    return {"said": said, "sum": total.item()}


def session_of_one(rank: int, size: int) -> Any:
    """A replay on one rank alone, of a step that meets no other; the rest go on without it."""
    if rank != 1:
        return ""
    model, x = _ones_model()

    def step() -> Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss

    session = Session(step, model=model)
    session.trace()
    session.arm("mm*1:0", "zero")
    return session.replay().outcome.name


def data_parallel_campaign(rank: int, size: int) -> Any:
    """A campaign of four faults on DDP: how they were tried, why so, and a sum afterwards."""
    campaign = Campaign(lambda: _data_parallel_session(rank, 2), n=4, seed=1)
    rows = list(campaign.run())
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    return {
        "ways": [row.way for row in rows],
        "sites": [row.site for row in rows],
        "why": campaign.bench.trials.why,
        "sum": total.item(),
    }


def hooked(rank: int, size: int, plan: Plan) -> Any:
    """DDP whose communication hook sums twice, the second time when the first sum is there.

    The gradient on rank r is (r + 1) (1, 2).
    """
    inner = nn.Linear(2, 1, bias=False)
    model = nn.parallel.DistributedDataParallel(inner)
    done: list[bool] = []

    def again(future: Any) -> Tensor:
        value: Tensor = future.value()[0]
        dist.all_reduce(value)
        return value

    def hook(bucket: Any) -> Any:
        work = distributed.all_reduce(bucket.buffer(), async_op=True)
        done.append(work.is_completed())
        return work.get_future().then(again)

    model.register_comm_hook(None, lambda _state, bucket: hook(bucket))
    with Injector(plan, model=model) as injector:
        model(torch.tensor([[1.0, 2.0]]) * (rank + 1)).sum().backward()
    return {"gradient": _numbers(inner.weight.grad), "done": done, **_told(injector)}


def joined(rank: int, size: int, plan: Plan) -> Any:
    """DDP in which rank r makes r + 1 steps, and goes along with the others after them."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Injector(plan, model=model) as injector, model.join():
        for _ in range(rank + 1):
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return _told(injector)


def sharded(rank: int, size: int, plan: Plan, steps: int) -> Any:
    """FSDP2 over one Linear of weight (1, 1, 1, 1)ᵀ; loss = sum of outputs.

    The gradient on rank r is r + 1 in every element.
    """
    from torch.distributed.fsdp import fully_shard

    model: Any = nn.Sequential(nn.Linear(1, 4, bias=False))
    nn.init.ones_(model[0].weight)
    fully_shard(model, mesh=distributed.init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    outputs, gradients = [], []
    with Injector(plan, model=model) as injector:
        for _ in range(steps):
            out = model(torch.full((1, 1), rank + 1.0))
            out.sum().backward()
            outputs.append(_numbers(out.detach()))
            gradients.append(_numbers(model[0].weight.grad.to_local()))
            optimizer.step()
            optimizer.zero_grad()
    return {"outputs": outputs, "gradients": gradients, **_told(injector)}


def sharded_update(rank: int, size: int, plan: Plan) -> Any:
    """The weight of `sharded` after one step; each rank's own rows."""
    from torch.distributed.fsdp import fully_shard

    model: Any = nn.Sequential(nn.Linear(1, 4, bias=False))
    nn.init.ones_(model[0].weight)
    fully_shard(model, mesh=distributed.init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, foreach=False)
    with Injector(plan, model=model) as injector:
        out = model(torch.full((1, 1), rank + 1.0))
        out.sum().backward()
        optimizer.step()
    weight = _numbers(model[0].weight.to_local().detach())
    return {"output": _numbers(out.detach()), "weight": weight, **_told(injector)}


def traced(rank: int, size: int) -> Any:
    """A session's golden run and replay of a step with collectives and point-to-point calls."""
    model, x = _ones_model()
    nn.init.ones_(model.weight)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> Tensor:
        out = model(x)
        total = out.detach().clone() * (rank + 1)
        work = dist.all_reduce(total, async_op=True)
        buffer, value = torch.zeros(1), torch.full((1,), rank + 1.0)
        works = [
            distributed.irecv(buffer, (rank - 1) % size),
            distributed.isend(value, (rank + 1) % size),
            work,
        ]
        for one in works:
            one.wait()
        loss = (out * (total + buffer)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    session = Session(step, model=model, optimizer=optimizer)
    trace = session.trace()
    summed = trace.row("c10d::allreduce_*1:0[0]")
    session.arm("c10d::allreduce_*1", "drop_rank", rank=1)
    run = session.replay()
    return {
        "sum": trace.stats(summed).max,
        "losses": [run.golden[0].loss, run.faulty[0].loss],
        "noise": run.noise is None or run.noise.equal,
        "struck": [str(i.site) for i in run.injections],
        "outcome": str(run.outcome),
    }


def replayed(rank: int, size: int, faults: list[Plan], steps: int = 1) -> Any:
    """A session's replay of each fault, at an all-reduce of eight elements that nothing reads."""
    model, x = _ones_model()

    def step() -> Tensor:
        out = model(x).sum()
        dist.all_reduce(torch.full((8,), rank + 1.0))
        out.backward()
        return out

    session = Session(step, model=model)
    session.trace()
    told = []
    for fault in faults:
        given = dict(fault)
        armed = session.arm("c10d::allreduce_*1", given.pop("model"), **given)
        run = session.replay(steps)
        told.append(
            {
                "struck": [[i.rank, *(e.index for e in i.elements)] for i in run.injections],
                "outcome": str(run.outcome),
            }
        )
        session.disarm(armed.id)
    return told


def trained_once(rank: int, size: int, plan: Plan) -> Any:
    """The step of `replayed` under an injector: where each fault struck."""
    model, x = _ones_model()
    with Injector(plan, model=model) as injector:
        out = model(x).sum()
        dist.all_reduce(torch.full((8,), rank + 1.0))
        out.backward()
    return [[i.rank, *(e.index for e in i.elements)] for i in injector.injections]


def coalesced(rank: int, size: int, plan: Plan) -> Any:
    """Two broadcasts from rank 1 inside one coalescing group of the backend, then read."""
    model, x = _ones_model()
    values = _each(rank + 1.0, 10 * (rank + 1.0))
    state = distributed.distributed_c10d._world.pg_coalesce_state
    with Injector(plan, model=model) as injector:
        model(x)
        state[distributed.group.WORLD] = []  # as the manager does; gloo itself has no group
        works = [dist.broadcast(value, 1, async_op=True) for value in values]
        del state[distributed.group.WORLD]
        before = _numbers(values) if all(w.wait() or True for w in works) else None
        got = torch.cat(values)
    return {"before": before, "got": got.tolist(), **_told(injector)}


def subgroup(rank: int, size: int, plan: Plan, members: list[int]) -> Any:
    """An all-reduce of the global rank inside a part of the ranks."""
    group = dist.new_group(members)
    model, x = _ones_model()
    value = torch.full((1,), float(rank))
    with Injector(plan, model=model) as injector:
        model(x)
        if rank in members:
            dist.all_reduce(value, group=group)
    return {"got": value.item(), **_told(injector)}


def unread(rank: int, size: int, plan: Plan) -> Any:
    """Rank 0 receives 2 and looks at it without a call."""
    model, x = _ones_model()
    value = torch.tensor([rank + 1.0])
    with Injector(plan, model=model) as injector:
        model(x)
        if rank == 1:
            dist.send(value, 0)
        else:
            dist.recv(value, 1)
    return {"got": value.tolist(), **_told(injector)}


def passed_on(rank: int, size: int, plan: Plan, how: str) -> Any:
    """Rank 0 sends (5, 7) to rank 1, which does something with the buffer before it reads it."""
    model, x = _ones_model()
    buffer = torch.ones(2)
    with Injector(plan, model=model) as injector:
        model(x)
        if rank == 0:
            dist.send(torch.tensor([5.0, 7.0]), 1)
        else:
            work = distributed.irecv(buffer, 0)
            if how == "shape":
                torch.zeros_like(buffer)
            work.wait()
        if how == "send":
            dist.send(buffer, 0) if rank else dist.recv(buffer, 1)
        if how == "all_reduce":
            dist.all_reduce(buffer)
        if how == "receive":
            dist.recv(buffer, 0) if rank else dist.send(torch.tensor([1.0, 2.0]), 1)
        got = buffer * 1
    return {"got": got.tolist(), **_told(injector)}


def received_late(rank: int, size: int, plan: Plan, sent_in: list[int], read_in: list[int]) -> Any:
    """Rank 0 sends step + 1 at the end of some steps; rank 1 reads after the forward of some."""
    model, x = _ones_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    buffer, seen = torch.zeros(1), []
    with Injector(plan, model=model) as injector:
        for step in range(4):
            loss = model(x).sum()
            if rank == 1 and step in read_in:
                seen.append((buffer * 1).item())
            loss.backward()
            if step in sent_in:
                dist.recv(buffer, 0) if rank else dist.send(torch.tensor([step + 1.0]), 1)
            optimizer.step()
            optimizer.zero_grad()
    return {"seen": seen, **_told(injector)}


def received_twice(rank: int, size: int, plan: Plan) -> Any:
    """Rank 1 receives 5 and 7 from rank 0, and then reads both."""
    model, x = _ones_model()
    buffers = _each(0.0, 0.0)
    with Injector(plan, model=model) as injector:
        model(x)
        for buffer, value in zip(buffers, _each(5.0, 7.0), strict=True):
            dist.recv(buffer, 0) if rank else dist.send(value, 1)
        got = torch.cat(buffers)
    return {"got": got.tolist(), **_told(injector)}


def raising(rank: int, size: int, target: str) -> Any:
    """A fault model of a person's own that raises, at an operator or a collective."""
    faults.register("boom", replace=True)(_boom)
    plan: Plan = {"version": 2, "faults": [{"id": "f1", "target": target, "model": "boom"}]}
    model, x = nn.Sequential(nn.Linear(1, 1), nn.ReLU()), torch.ones(1, 1)
    raised = ""
    with Injector(plan, model=model) as injector:
        try:
            model(x)
            dist.all_reduce(torch.ones(1))
        except ValueError as error:
            raised = repr(error)
    faults.unregister("boom")
    return {"raised": raised, **_told(injector)}


def _boom(values: Tensor, ctx: Any) -> Tensor:
    """Raise."""
    raise ValueError("boom")


def _in_parallel(kind: str, size: int) -> Any:
    """Two Linear layers of ones, 2 to 4 to 1, shared out over the ranks."""
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.tensor import parallel

    mesh = distributed.init_device_mesh("cpu", (size,))
    model: Any = nn.Sequential(nn.Linear(2, 4, bias=False), nn.Linear(4, 1, bias=False))
    for layer in model:
        nn.init.ones_(layer.weight)
    if kind == "tensor":
        plan = {"0": parallel.ColwiseParallel(), "1": parallel.RowwiseParallel()}
        return parallel.parallelize_module(model, mesh, plan)
    if kind == "fsdp1":
        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _steps_in_parallel(
    rank: int, size: int, kind: str
) -> tuple[Any, torch.optim.Optimizer, Callable[[], Tensor]]:
    """A model, its optimizer and its step; all ranks of tensor parallelism have one batch."""
    model = _in_parallel(kind, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25, foreach=False)
    x = torch.full((1, 2), 1.0 if kind == "tensor" else rank + 1.0)

    def step() -> Tensor:
        loss: Tensor = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, optimizer, step


def struck_in_parallel(rank: int, size: int, kind: str, plan: Plan) -> Any:
    """Losses of two steps under an injector."""
    model, _, step = _steps_in_parallel(rank, size, kind)
    with Injector(plan, model=model) as injector:
        losses = [step().item() for _ in range(2)]
    return {"losses": losses, **_told(injector)}


def explored_in_parallel(
    rank: int, size: int, kind: str, site: str, fault: Plan, unread: tuple[str, ...] = ()
) -> Any:
    """A session's replay of a fault, and the losses of two steps of training after it."""
    model, optimizer, step = _steps_in_parallel(rank, size, kind)
    model(torch.ones(1, 2)).sum().backward()  # FSDP2 takes its memory in the first step
    optimizer.zero_grad()
    session = Session(step, model=model, optimizer=optimizer)
    trace = session.trace()
    session.arm(site, "scale", **fault)
    run = session.replay()
    return {
        "losses": [run.golden[0].loss, run.faulty[0].loss],
        "same": run.noise is None or run.noise.equal,
        "struck": [[str(i.site), i.changed] for i in run.injections],
        "gradients": {d.name: d.relative_l2 for d in run.comparison.gradients},
        "unread": [str(trace.stats(trace.row(site)).max) for site in unread],
        "trained": [step().item() for _ in range(2)],
    }
