"""Showing records: figures, their text twins, and files to keep.

Everything here is a function of the records; nothing imports torch.
"""
