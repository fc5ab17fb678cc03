"""Shows a progress report as a bar and in words."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ...ledger.progress import decode_progress, progress_words, share_of
from ...models import IdempotencyKey
from ...states import State
from .badges import badge, look_of
from .wording import shown, state_word


def in_words(row: IdempotencyKey) -> str:
    """The report in words; an unreadable report as it is stored."""
    progress = decode_progress(row.progress)
    return shown(row.progress) if progress is None else shown(progress_words(progress))


def bar(row: IdempotencyKey) -> SafeString | str:
    """A bar with the words; the words alone where the report has no total."""
    progress = decode_progress(row.progress)
    share = None if progress is None else share_of(progress)
    if share is None:
        return in_words(row)
    percent = int(share * 100)
    return format_html(
        '<span class="idem-bar"><progress value="{}" max="100" aria-label="{}">{}%</progress> {}</span>',
        percent,
        _("progress"),
        percent,
        in_words(row),
    )


def state_and_progress(row: IdempotencyKey) -> SafeString:
    """The state as a badge, and of a running key its progress, without the note: columns are narrow."""
    state = badge(state_word(row.state), look_of(row.state))
    progress = decode_progress(row.progress) if row.state == State.RUNNING else None
    if progress is None:
        return state
    return format_html("{} {}", state, shown(progress_words(progress | {"note": ""})))
