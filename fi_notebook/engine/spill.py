"""Golden outputs in a safetensors file, written while the step runs.

    spill = Spill("golden.safetensors")
    spill.add("addmm*3:0", tensor)      # False where the format does not know the dtype
    spill.finish()                      # the file takes its name
    spill.read("addmm*3:0")

Data go to a file beside it first; `finish` puts the header before them. Nothing is
pickled, and any safetensors reader can open the file: names are those of the sites.

Limits: complex tensors are not spilled. A file that a later run overwrites is read no
more: the open handle keeps the old one where the system allows it.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import safe_open

from fi_notebook.core.files import written_whole
from fi_notebook.engine.bits import raw
from fi_notebook.engine.storages import array_over
from fi_notebook.errors import SessionError

__all__ = ["Spill"]

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
"""Dtypes as the format names them."""


class Spill:
    """One file of tensors by name.

    Args:
        path: The file; its folder must exist.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file beside it.

        Raises:
            SessionError: The folder cannot be written.
        """
        self.path = Path(path)
        self.size = 0
        self._header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        self._data = self.path.with_name(f"{self.path.name}.part")
        with self._writing():
            self._file: BinaryIO | None = self._data.open("w+b")
        self._reader: Any = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say of a full disk or a folder that cannot be written what was tried there."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise SessionError(f"cannot spill to {str(self.path)!r}: {reason}") from error

    def add(self, name: str, tensor: torch.Tensor) -> bool:
        """Write a tensor; says whether the format knows its dtype.

        Raises:
            SessionError: The disk is full.
        """
        kind = _NAMES.get(tensor.dtype)
        if kind is None or self._file is None:
            return False
        data = array_over(raw(tensor).contiguous().cpu()).tobytes()
        with self._writing():
            self._file.write(data)
        ends = [self.size, self.size + len(data)]
        self._header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": ends}
        self.size = ends[1]
        return True

    def finish(self) -> None:
        """Put the header before the data, under the file's own name.

        Raises:
            SessionError: The disk is full.
        """
        if self._file is None:
            return
        header = json.dumps(self._header).encode()
        header += b" " * (-len(header) % 8)
        with self._writing(), written_whole(self.path) as whole:
            whole.write(struct.pack("<Q", len(header)) + header)
            self._file.seek(0)
            shutil.copyfileobj(self._file, whole, 1 << 20)
        self.discard()
        self._reader = safe_open(self.path, framework="pt")  # closed with the last that reads it

    def discard(self) -> None:
        """Remove the file beside it; a run that failed leaves nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):  # what waits to be written is not wanted any more
                file.close()
        self._data.unlink(missing_ok=True)

    def read(self, name: str) -> torch.Tensor:
        """A tensor by name, once the file is finished."""
        return self._reader.get_tensor(name)
