"""How far a body said that it was, as a bar and in words."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ...ledger.progress import decode_progress, progress_words, share_of
from ...models import IdempotencyKey
from ...states import State
from .wording import shown, state_word


def told(row: IdempotencyKey) -> str:
    """In words; what nobody can read as it is."""
    progress = decode_progress(row.progress)
    return shown(row.progress) if progress is None else shown(progress_words(progress))


def bar(row: IdempotencyKey) -> SafeString | str:
    """A bar and the words; the words alone where no total was told."""
    progress = decode_progress(row.progress)
    share = None if progress is None else share_of(progress)
    if share is None:
        return told(row)
    percent = int(share * 100)
    return format_html(
        '<span class="idem-bar"><progress value="{}" max="100" aria-label="{}">{}%</progress> {}</span>',
        percent,
        _("progress"),
        percent,
        told(row),
    )


def state_and_progress(row: IdempotencyKey) -> str:
    """A state in a word, of what runs also how far it is; without the note, a list's columns are narrow."""
    progress = decode_progress(row.progress) if row.state == State.RUNNING else None
    if progress is None:
        return state_word(row.state)
    return f"{state_word(row.state)}, {shown(progress_words(progress | {'note': ''}))}"
