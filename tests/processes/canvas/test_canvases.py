"""A canvas finishes, with real values in every place, under duplicates, redeliveries, failures and deaths."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import LIVE
from tests.processes.canvas.conftest import Arena
from tests.processes.canvas.forms import ERRORS, FORMS
from tests.processes.canvas.tasks import MODES

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("mode", MODES)
def test_a_canvas_ends_with_every_value_and_each_effect_once(arena: Arena, mode: str, name: str) -> None:
    form, rows = arena.forms[mode, name], arena.site.rows
    told = [entry["values"] for entry in arena.site.journal.read("collected", form.key)]
    assert told == [form.told]
    effects = {key: len(rows.effects(key)) for key in (form.key, *form.once)}
    assert effects == dict.fromkeys(effects, 1)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("mode", MODES)
def test_an_error_in_a_canvas_is_heard_and_nothing_waits(arena: Arena, mode: str, name: str) -> None:
    form, rows = arena.forms[mode, name], arena.site.rows
    (heard,) = arena.site.journal.read("heard", form.key)
    assert form.told in heard["error"]
    assert arena.site.journal.read("collected", form.key) == []
    assert not rows.effects(f"{form.key}-never")
    keys = IdempotencyKey.objects.using(rows.alias).filter(key_text__startswith=f"key={form.key}-")
    assert keys.exists()
    assert not keys.filter(state__in=LIVE).exists()
