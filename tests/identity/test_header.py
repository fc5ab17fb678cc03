from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.messages.header import from_header, to_header

SENT = Identity(UUID(int=1), "t", "order_id=7", UUID(int=2))
HEADER = to_header(SENT, task_name="shop.charge", task_id="id-1")

texts = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=9)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def read(header: object) -> Identity | None:
    return from_header(header, task_name="shop.charge", task_id="id-1")


@settings(deadline=None)
@given(digest=st.uuids(), scope=st.none() | texts, key_text=texts, fingerprint=st.none() | st.uuids())
def test_an_identity_comes_out_of_its_header_as_it_was(
    digest: UUID, scope: str | None, key_text: str, fingerprint: UUID | None
) -> None:
    sent = Identity(digest, scope, key_text, fingerprint)
    header = json.loads(json.dumps(to_header(sent, task_name="shop.charge", task_id="id-1")))
    assert read(header) == sent


def test_a_header_says_what_it_is_about() -> None:
    assert HEADER == {
        "v": 1,
        "task": "shop.charge",
        "id": "id-1",
        "digest": "00000000000000000000000000000001",
        "scope": "t",
        "key": "order_id=7",
        "fp": "00000000000000000000000000000002",
    }


@pytest.mark.parametrize(
    "change", [{"task": "shop.refund"}, {"id": "id-2"}, {"v": 2}, {"v": True}, {"v": "1"}]
)
def test_a_header_of_another_call_or_version_does_not_count(change: dict[str, object]) -> None:
    assert read({**HEADER, **change}) is None


@pytest.mark.parametrize("header", [None, "", "x", [], 1, {}, b"{}"])
def test_what_is_no_header_counts_as_absent(header: object) -> None:
    assert read(header) is None


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (
            "digest",
            [None, 1, "", "0" * 31, "0" * 33, "G" * 32, "0" * 32 + "\n", "A" * 32, "\u0660" * 32, ["0" * 32]],
        ),
        ("fp", [1, "", "0" * 31, "0" * 32 + "\n", {}]),
        ("scope", [1, "x" * 121, "\0", "\ud800", []]),
        ("key", [None, 1, "x" * 256, b"x"]),
        ("v", [None, 1.5, {}]),
        ("task", [None, ["shop.charge"]]),
        ("id", [None, 1]),
    ],
)
def test_a_malformed_header_counts_as_absent(field: str, values: list[object]) -> None:
    assert [read({**HEADER, field: value}) for value in values] == [None] * len(values)


def test_a_header_without_the_fields_that_may_be_none_still_counts() -> None:
    lean = {name: value for name, value in HEADER.items() if name not in {"scope", "fp"}}
    assert read(lean) == Identity(SENT.digest, None, SENT.key_text, None)


def test_a_header_s_text_is_cleaned_for_people() -> None:
    found = read({**HEADER, "key": "a\x1b[31m\0\u202eb\ud800"})
    assert found is not None
    assert found.key_text == "a\ufffd[31m\ufffd\ufffdb\ufffd"


@settings(deadline=None)
@given(header=junk | st.fixed_dictionaries({}, optional=dict.fromkeys(HEADER, junk)), whole=st.booleans())
def test_a_hostile_header_never_raises(header: Any, whole: bool) -> None:
    found = read({**HEADER, **header} if whole and isinstance(header, dict) else header)
    if found is not None:
        assert isinstance(found.digest, UUID)
        assert len(found.key_text) <= 255
        assert len(found.scope or "") <= 120
