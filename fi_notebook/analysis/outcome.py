"""What the fault did in the end: one name and one plain sentence.

    masked_exact: f1 struck relu*2:0 in step 0; the last call that differs is
    max_pool2d*1:0, and every later call and the whole update are bit-equal

The classes are tried in the order of `OUTCOMES`, and the first that holds is taken.
Each is one function of the evidence; `judge` only walks through them.

Limits: calls are compared in one step. A fault that first strikes in a later step is judged on
the step records, and on what training keeps after the last: ``masked_exact`` needs a measured
parameter distance of exactly 0, and equal bits of all that is kept. Of gradients that no update
takes by then the norm alone is known.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

import numpy as np

from fi_notebook.analysis.course import pairs, relative
from fi_notebook.analysis.ended import ended_words, lost_words, read_rows, undone_words
from fi_notebook.analysis.evidence import Evidence, differences, distances, step_distances
from fi_notebook.analysis.mechanisms import growth_words
from fi_notebook.analysis.nonfinite import first_nonfinite
from fi_notebook.analysis.outcome_course import COURSE_RULES
from fi_notebook.analysis.residue import noise
from fi_notebook.analysis.updates import gradients_used, has_update, update_differs
from fi_notebook.analysis.words import four_digits, how_far, limited, several, told_apart
from fi_notebook.core.injection import NO_ELEMENT
from fi_notebook.core.run import NO_LOSS, RESULT, Comparison, Difference, Outcome, StepRecord
from fi_notebook.core.words import agreed, among, counted

__all__ = ["judge"]


def judge(evidence: Evidence, detected_by: Sequence[str] = ()) -> Outcome:
    """Name what a plan as a whole did.

    Args:
        evidence: The runs, and what was measured between them.
        detected_by: Names of the detectors that would have alarmed.

    Returns:
        The first outcome that holds, with one plain sentence.
    """
    outcomes = (rule(evidence) for rule in _RULES)
    first = next((outcome for outcome in outcomes if outcome is not None), None)
    return replace(first or _changed(evidence), detected_by=tuple(detected_by))


def _crash(e: Evidence) -> Outcome | None:
    if not e.error:
        return None
    made = len(e.faulty)
    step = e.golden[made].step if made < len(e.golden) else made
    here = " this rank" if e.elsewhere else ""
    after = f"after {e.struck}" if e.injections else f"before any fault had struck{here}"
    raised = e.error.strip().splitlines()[-1].strip() if e.error.strip() else "an error"
    return Outcome("crash", f"the faulty run stopped in step {step} with {raised}, {after}", step)


def _not_injected(e: Evidence) -> Outcome | None:
    if e.injections or e.reached:
        return None
    reasons = [f"{missed.fault}: {missed.reason}" for missed in e.not_injected]
    why = several(reasons) or _unstruck(e)
    here = " this rank, and nothing on it differs" if e.elsewhere else ", so nothing was tested"
    return Outcome("not_injected", f"no fault struck{here} ({why})")


def _unstruck(e: Evidence) -> str:
    """Why nothing could strike, where no fault has a reason of its own."""
    if not len(e.plan):
        return "nothing is armed"
    on = any(fault.enabled for fault in e.plan)
    return "no reason is known" if on else "every fault of the plan is switched off"


def _inactive(e: Evidence) -> Outcome | None:
    if not e.injections or any(injection.changed for injection in e.injections):
        return None
    if all(injection.note == NO_ELEMENT for injection in e.injections):
        return Outcome("inactive", f"{e.struck}, but {NO_ELEMENT}, so it changed nothing", e.strike)
    numel = int(np.prod(e.first.after.shape, dtype=np.int64))
    alone = len({injection.site for injection in e.injections}) == 1
    where = f" of its {counted(numel, 'element')}" if alone else ""
    return Outcome(
        "inactive",
        f"{e.struck}, but changed no bit{where}: "
        "each element that was chosen already had the value that the fault gives it",
        e.strike,
    )


def _nan(e: Evidence) -> Outcome | None:
    found = first_nonfinite(
        e.comparison,
        pairs(e.golden, e.faulty),
        e.tolerance.nonfinite,
        compared=e.compared,
        updated=e.updated,
    )
    if found is None:
        return None
    step, where = found
    if step <= e.strike:
        return Outcome("nan_immediate", f"{e.struck}, and in the same step {where}{e.hidden}", step)
    late = step - e.strike
    after = f"{counted(late, 'step')} later, in step {step}, {where}"
    return Outcome("nan_delayed", f"{e.struck}; {after}{e.hidden}", step)


def _masked_exact(e: Evidence) -> Outcome | None:
    if not (_update_equal(e) and _later_equal(e)):
        return None
    equal = "bit-equal to" if e.noise is None or e.noise.equal else "within the noise floor of"
    undone = undone_words(e.injections)
    return Outcome(
        "masked_exact",
        f"{e.struck}; {undone and f'{undone}; '}{ended_words(e.comparison)} and the whole update "
        f"are {equal} the golden run{_shown_words(e)}",
        e.strike,
    )


def _shown_words(e: Evidence) -> str:
    """The loss of the struck step, where it differs though nothing is made of it."""
    loss = e.comparison.loss
    name, values = loss.name, () if loss.equal else (loss.golden, loss.faulty)
    if e.strike > e.compared:
        golden, faulty = _struck_records(e)[0]
        equal = relative(golden.loss, faulty.loss) == 0
        name, values = "loss", () if equal else (golden.loss, faulty.loss)
    if not values:
        return ""
    before, after = told_apart(*values)
    return f" (only the {name} that is shown differs: {after} instead of {before})"


def _update_equal(e: Evidence) -> bool:
    """Whether the struck step ends with the same bits as the golden run."""
    if e.strike > e.compared:
        return _late_update_equal(e)
    c, after = e.comparison, _kept(e.comparison)
    rows = c.diverged
    quiet_end = not len(rows) or rows[-1] < len(c) - 1
    kept = all(d.equal for d in after) if after else not update_differs(c)
    return quiet_end and kept and gradients_used(c) and (c.loss.equal or has_update(c.golden))


def _late_update_equal(e: Evidence) -> bool:
    """The same of a struck step whose calls were not compared."""
    struck = _struck_records(e)
    if not struck or any(f.parameter_distance != 0 for _, f in struck):
        return False
    if _is_unseen(e) or not all(d.equal for d in _kept(e.comparison)):
        return False
    if not has_update(e.comparison.golden) and any(relative(g.loss, f.loss) for g, f in struck):
        return False
    golden, faulty = struck[-1]  # what it leaves may yet be used
    return relative(golden.gradient_norm, faulty.gradient_norm) == 0


def _struck_records(e: Evidence) -> list[tuple[StepRecord, StepRecord]]:
    """The records from the first step in which a value was changed."""
    return [(g, f) for g, f in pairs(e.golden, e.faulty) if f.step >= e.strike]


def _kept(comparison: Comparison) -> list[Difference]:
    """What training keeps after the last step."""
    return [*comparison.parameters, *comparison.buffers, *comparison.optimizer_state]


def _is_unseen(e: Evidence) -> bool:
    """Whether a step was struck of which nothing shows what it gave: no call, loss or update."""
    c = e.comparison
    return e.strike > e.compared and not c.has_loss and not has_update(c.golden)


def _later_equal(e: Evidence) -> bool:
    later = [(g, f) for g, f in pairs(e.golden, e.faulty) if f.step > e.strike]
    return all(
        relative(getattr(g, name), getattr(f, name)) == 0
        for g, f in later
        for name in ("loss", "gradient_norm", "parameter_norm")
    )


def _masked_tolerance(e: Evidence) -> Outcome | None:
    name, worst = max([*distances(e.comparison), *step_distances(e)], key=lambda pair: pair[1])
    if not worst and (e.comparison.loss.note == NO_LOSS or _is_unseen(e)):
        return None  # it ends in a call that differs, and nothing else shows what came of it
    left = differences(e.comparison)
    if not worst <= e.relative or any(_nonfinite_count(d) for d in left):
        return None
    if all(d.equal for d in left) and len(e.comparison.diverged):
        return Outcome("masked_tolerance", f"{e.struck}, and {_to_the_end(e.comparison)}", e.strike)
    return Outcome(
        "masked_tolerance",
        f"{e.struck}, and its error is not gone but stays below the tolerance: the largest "
        f"relative difference is {four_digits(worst)} ({name}), {four_digits(e.relative)} counts",
        e.strike,
    )


def _to_the_end(comparison: Comparison) -> str:
    """How far an error came that left nothing behind."""
    last = int(comparison.diverged[-1])
    if last in comparison.unread:
        lost = lost_words(comparison, last)
        return f"its error {lost}; nothing that the step leaves behind differs"
    return (
        f"calls differ to the end of the step, the last {comparison.site(last)}, but nothing that "
        "it leaves behind does"
    )


def _nonfinite_count(difference: Difference) -> int:
    return difference.new_nan + difference.new_inf


def _changed(e: Evidence) -> Outcome:
    late = e.strike > e.compared  # then in the step that was compared nothing is changed yet
    said = [*([] if late else _step_words(e.comparison)), _end_words(e)]
    words = "; ".join(text for text in said if text) or (
        f"calls and results were compared in step {e.compared} alone, and the records show nothing"
    )
    grew = growth_words(e.comparison)
    return Outcome("changed", f"{e.struck}; {words}{grew and f'; {grew}'}{e.hidden}", e.strike)


def _step_words(comparison: Comparison) -> list[str]:
    """What differs in the step that was compared."""
    c = comparison
    return [
        _loss_words(c.loss),
        _output_words(c) if c.loss.note == NO_LOSS else "",
        _tensor_words("gradient", c.gradients, noise(c.golden, c.gradients)),
    ]


def _end_words(e: Evidence) -> str:
    """What moved of what training keeps; of several steps also the last loss, and when that is."""
    c = e.comparison
    kinds = {
        "parameter": c.parameters,
        "buffer": c.buffers,
        "optimizer tensor": c.optimizer_state,
    }
    unnamed = noise(c.golden, c.gradients)
    kept = [_tensor_words(kind, found, unnamed) for kind, found in kinds.items()]
    moved = [text for text in (kept[:1] if kept[0] else kept) if text]
    if e.updated <= e.compared:
        return "; ".join(moved)
    golden, faulty = pairs(e.golden, e.faulty)[-1]
    if golden.loss != faulty.loss and not np.isnan(golden.loss):
        moved.insert(0, _instead("the loss is", golden.loss, faulty.loss))
    return f"after step {e.updated} {'; '.join(moved)}" if moved else ""


def _instead(what: str, golden: float, faulty: float) -> str:
    texts = told_apart(golden, faulty)
    said = f"{what} {texts[1]} instead of {texts[0]}"
    if not (np.isfinite(golden) and np.isfinite(faulty)):
        return said
    return f"{said} (relative difference {limited(relative(golden, faulty))})"


def _output_words(comparison: Comparison) -> str:
    """How many sites differ, and the last that does."""
    rows, read = comparison.diverged, read_rows(comparison)
    if not len(rows):
        return ""
    count = among(len(rows), len(comparison), "site")
    last = f", the last {comparison.site(int(read[-1]))}" if len(read) else ""
    return f"{count} {agreed(len(rows), 'differ')}{last}"


def _tensor_words(
    kind: str, tensors: Sequence[Difference], unnamed: Container[str] = frozenset()
) -> str:
    """How many differ, and which most, but for those whose gradient is noise."""
    moved = [d for d in tensors if not d.equal]
    if not moved:
        return ""
    named = [d for d in moved if d.name not in unnamed] or moved
    worst = max(named, key=lambda d: (_nonfinite_count(d), d.relative_l2))
    return (
        f"{among(len(moved), len(tensors), kind)} {agreed(len(moved), 'differ')}, "
        f"most {worst.name} ({how_far(worst)})"
    )


def _loss_words(loss: Difference) -> str:
    if loss.note == NO_LOSS:
        return "the step has no loss to compare" if loss.equal else "one run alone has a loss"
    if loss.equal:
        how = f"{loss.note} of" if loss.note else "bit-equal to"
        return f"this step's {loss.name} is {how} the golden one"
    if loss.name == RESULT:
        golden, faulty = told_apart(loss.golden, loss.faulty)
        return f"the norm of the result is {faulty} instead of {golden} ({_result_words(loss)})"
    return _instead(f"the {loss.name} is", loss.golden, loss.faulty)


def _result_words(result: Difference) -> str:
    """How far the result is; its norm can be NaN where no element of it newly is."""
    finite = np.isfinite(result.golden) and np.isfinite(result.faulty)
    return how_far(result) if finite or _nonfinite_count(result) else "no relative L2 is known"


def _one_step(e: Evidence) -> Outcome | None:
    return _changed(e) if len(e.faulty) <= 1 else None


_RULES: tuple[Callable[[Evidence], Outcome | None], ...] = (
    _crash,
    _not_injected,
    _inactive,
    _nan,
    _masked_exact,
    _masked_tolerance,
    _one_step,
    *COURSE_RULES,
)
