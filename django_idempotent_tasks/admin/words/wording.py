"""Prepares texts for a page: control characters become escapes, names of states become words."""

from __future__ import annotations

from datetime import datetime

from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...identity.text import harmless
from ...operations.text import since
from ...states import Category, Reason, State

#: How many characters a column of a list shows.
CELL = 120
_MAY_BREAK = SafeString(".<wbr>")

_STATES = {
    State.PENDING: gettext_noop("pending"),
    State.RUNNING: gettext_noop("running"),
    State.RETRY: gettext_noop("retry"),
    State.REVIEW: gettext_noop("in review"),
    State.FAILED: gettext_noop("failed"),
    State.CANCELLED: gettext_noop("cancelled"),
    State.SUCCEEDED: gettext_noop("succeeded"),
}
_CATEGORIES = {
    Category.FATAL: gettext_noop("fatal"),
    Category.RETRYABLE: gettext_noop("retryable"),
    Category.MANUAL_REVIEW: gettext_noop("manual review"),
    Category.EXPECTED: gettext_noop("expected"),
}
_REASONS = {
    Reason.NONE: gettext_noop("none"),
    Reason.DONE: gettext_noop("done"),
    Reason.RETRY_ASKED: gettext_noop("retry asked for"),
    Reason.IGNORED: gettext_noop("ignored"),
    Reason.CANCELLED: gettext_noop("cancelled"),
    Reason.RETRIES_USED_UP: gettext_noop("retries used up"),
    Reason.PERMANENT: gettext_noop("permanent"),
    Reason.POISON: gettext_noop("poison: its workers died"),
    Reason.IN_DOUBT: gettext_noop("in doubt"),
    Reason.OWNER_DIED: gettext_noop("its owner died"),
    Reason.RESULT_NOT_STORED: gettext_noop("done, but the result is not stored"),
    Reason.SENT: gettext_noop("sent"),
    Reason.REPLACED: gettext_noop("replaced by another task"),
    Reason.EXPECTED: gettext_noop("expected: its task names the error in expected_errors or throws"),
    Reason.RELEASED: gettext_noop("given back: its worker was told to shut down"),
}


def shown(text: object) -> str:
    """One line, with control and bidirectional characters made visible. Templates escape it for HTML."""
    return "-" if text is None else harmless(text) or '""'


def cell(text: object) -> str:
    """The same, cut to the width of a column."""
    line = shown(text)
    return line if len(line) <= CELL else f"{line[: CELL - 1]}…"


def dotted(text: object) -> SafeString:
    """The same, and a narrow column may break it after a dot."""
    return format_html_join(_MAY_BREAK, "{}", ((part,) for part in cell(text).split(".")))


def sentence(text: str) -> str:
    """The text with an end, so that another sentence may follow."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def block(text: object) -> str:
    """Several lines, each made harmless."""
    return "\n".join(harmless(line) for line in str(text).split("\n"))


def state_word(state: int) -> str:
    """The word for a state."""
    return _(_STATES[State(state)])


def reason_word(reason: int) -> str:
    """The words for the reason of a state."""
    return _(_REASONS[Reason(reason)])


def category_word(category: int | None) -> str:
    """The words for a category of failures."""
    return "-" if category is None else _(_CATEGORIES[Category(category)])


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago a moment was."""
    return "-" if moment is None else _("%(span)s ago") % {"span": since(moment, now)}


def at(moment: datetime) -> str:
    """A moment to the second, in the project's time zone, with its offset."""
    return f"{localtime(moment) if moment.tzinfo else moment:%Y-%m-%d %H:%M:%S%z}"
