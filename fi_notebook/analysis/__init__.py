"""Judging records: what matches, what differs, what each call did to the error.

Everything here is a function over the records of ``core``; nothing imports torch.
"""
