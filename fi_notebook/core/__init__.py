"""The nouns: plain frozen records that every other room talks in.

Nothing here imports torch; dtypes are named as text and bits are plain integers.
"""
