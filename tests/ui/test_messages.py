"""Messages between kernel and page, checked in both directions."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.ui import handlers
from fi_notebook.ui.messages import (
    LARGEST_PART,
    LARGEST_REQUEST,
    REQUESTS,
    Message,
    MessageError,
    Request,
    encode,
    parse,
)

ARM = {"kind": "arm", "id": 3, "site": "relu*2:0", "model": "bitflip", "parameters": {"bit": 30}}


def unpacked(parts: list[tuple[dict[str, Any], bytes]]) -> tuple[dict[str, Any], bytes]:
    """The head and the columns of a message, as the page reads them."""
    content = parts[0][0]
    block = b"".join(piece for _, piece in parts)
    whole = zlib.decompress(block) if content["deflated"] else block
    head = content["head"]
    return json.loads(whole[:head]), whole[head + (-head % 8) :]


class TestRequests:
    """What the page may ask."""

    def test_a_request_is_its_kind_id_and_fields(self) -> None:
        """Given fields are kept, null is not given."""
        request = parse({**ARM, "seed": None})
        assert request == Request(
            "arm", 3, {"site": "relu*2:0", "model": "bitflip", "parameters": {"bit": 30}}
        )

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ([], "a message is a mapping, not list"),
            ({"kind": "replai"}, "did you mean 'replay'"),
            ({"kind": ["arm"]}, "no message"),
            ({"kind": "replay", "id": "x"}, "id is a whole number"),
            ({"kind": "replay", "id": True}, "id is a whole number"),
            ({**ARM, "sight": "x"}, "no field 'sight'; did you mean 'site'"),
            ({"kind": "save"}, "the field 'path' is missing"),
            ({"kind": "replay", "steps": "3"}, "steps is int, not '3'"),
            ({"kind": "replay", "steps": True}, "steps is int, not True"),
            ({"kind": "enable", "fault": "f1", "on": 1}, "on is bool, not 1"),
            ({**ARM, "site": "x" * 2001}, "site is longer than 2000 characters"),
            ({**ARM, "parameters": {"x": "y" * LARGEST_REQUEST}}, "longer than 64000 bytes"),
        ],
    )
    def test_what_is_not_understood_is_refused_by_name(self, content: object, said: str) -> None:
        """Each refusal names the field and what was expected."""
        with pytest.raises(MessageError, match=said.replace("(", r"\(")):
            parse(content)

    def test_every_request_has_one_handler(self) -> None:
        """No request of the table ends in silence."""
        handled = [*handlers._QUICK, *handlers._READING, *handlers._STEPPING]
        assert sorted(handled) == sorted(REQUESTS)


class TestMessages:
    """What the kernel sends."""

    def test_columns_lie_at_multiples_of_eight(self) -> None:
        """The page can read every column in place."""
        columns: dict[str, Any] = {"a": np.arange(3, dtype=np.int32), "b": np.ones(5, np.uint8)}
        head, body = unpacked(encode(Message("trace", {"x": [1, "é"]}, columns), seq=7))
        assert head["kind"] == "trace"
        assert head["data"] == {"x": [1, "é"]}
        assert head["columns"] == [["a", "int32", 3], ["b", "uint8", 5]]
        assert body[:12] == np.arange(3, dtype=np.int32).tobytes()  # 12 bytes, padded to 16
        assert body[16:21] == b"\1" * 5

    def test_a_large_message_travels_in_parts(self) -> None:
        """No part is over the limit; together they are the message."""
        noise = np.random.default_rng(0).random(400_000)  # 3.2 MB that does not deflate
        parts = encode(Message("trace", {}, {"x": noise}), seq=1)
        assert len(parts) >= 3
        assert all(len(piece) <= LARGEST_PART for _, piece in parts)
        assert [content["part"] for content, _ in parts] == list(range(len(parts)))
        _, body = unpacked(parts)
        assert body == noise.tobytes()

    def test_nan_and_infinities_travel_as_text(self) -> None:
        """JSON has none of them."""
        values = {"a": math.nan, "b": [math.inf, -math.inf], "c": np.float32(0.5), "d": 1 + 2j}
        head, _ = unpacked(encode(Message("run", values), seq=1))
        assert head["data"] == {"a": "nan", "b": ["inf", "-inf"], "c": 0.5, "d": "(1+2j)"}

    @given(st.text(max_size=40), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50))
    def test_a_message_reads_back(self, text: str, numbers: list[int]) -> None:
        """Any text and any column come back as they were."""
        column = np.asarray(numbers, dtype=np.int32)
        head, body = unpacked(encode(Message("k", {"t": text}, {"c": column}), seq=1))
        assert head["data"]["t"] == text
        assert body[: column.nbytes] == column.tobytes()
