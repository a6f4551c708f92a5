"""Watching and striking the calls of a step, and running it again from the same state.

`intercept` names every call; `tracer` and `inject` observe it; `snapshot` and
`replay` put everything back and run again.
"""
