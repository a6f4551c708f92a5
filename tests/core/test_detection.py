from __future__ import annotations

from math import isnan

from fi_notebook.core.detection import Alarm, Detection


def test_the_earliest_alarm_comes_first() -> None:
    """Alarms are in order; without one there is no first."""
    alarms = (Alarm(1, "log*1:0", 3.0, 2.0), Alarm(2, "", 4.0))
    assert Detection("guard", alarms).first == alarms[0]
    assert Detection("guard").first is None


def test_an_alarm_may_have_no_threshold() -> None:
    """NaN is where there is no number."""
    assert isnan(Alarm(0, "", 1.0).threshold)
