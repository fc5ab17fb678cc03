"""Re-runs of captured failures of plain tasks."""

from __future__ import annotations

import logging
from typing import Any

from celery import current_app
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..dead_letters import DONE, Decision
from ..models import FailedJob
from ..reruns import can_rerun, rerun
from .asking import Question, ReasonForm
from .audit import who
from .ledger import alias
from .rows import RowAction
from .wording import shown

logger = logging.getLogger("django_idempotent_tasks")


class Rerun(RowAction):
    """A new message with a new task id; nothing keeps the work from being done twice."""

    slug = "rerun"
    label = gettext_lazy("Run it again")
    permissions = ("rerun_failedjob",)

    def __init__(self) -> None:
        self._task_id = ""

    def fits(self, row: FailedJob) -> bool:
        return can_rerun(row)

    def unfit(self, row: FailedJob) -> str:
        if row.digest is not None:
            return _("This attempt belongs to a key: redrive its dead letter instead.")
        return _("Nothing of its call is stored: send it again where it came from.")

    def question(self, request: HttpRequest, row: FailedJob) -> Question:  # noqa: ARG002
        lines = [
            _("Its call is published anew, with the same arguments and a new task id."),
            _("The task has no key: if its effects happened before it failed, they happen twice."),
        ]
        facts = [
            (_("task"), shown(row.task)),
            (_("task id"), shown(row.task_id)),
            (_("error"), shown(row.error)),
        ]
        warnings = []
        if row.task not in current_app.tasks:
            warnings.append(_("No task of this name is known here: was it renamed or removed?"))
        warnings += [
            _("%(who)s ran it again at %(at)s.")
            % {"who": shown(each.user), "at": f"{each.action_time:%Y-%m-%d %H:%M}"}
            for each in _entries(row)[:5]
        ]
        title = _("Run %(job)s again?") % {"job": shown(row)}
        return Question(title, _("Run it again"), lines, facts, warnings)

    def mark(self, row: FailedJob) -> str:
        """How often it was run again: nothing in its row would tell a second click from a first one."""
        return str(len(_entries(row)))

    def as_seen(self, row: Any, mark: str) -> Any:
        row.reruns = int(mark)
        return row

    def carry_out(self, request: HttpRequest, row: FailedJob, form: ReasonForm) -> Decision:
        # Locked until the entry is written that a second person then counts.
        FailedJob.objects.using(alias()).select_for_update().filter(pk=row.pk).first()
        entries = _entries(row)
        if len(entries) != row.reruns:  # type: ignore[attr-defined]  # set above
            words = _("%(who)s has run it again meanwhile: look at what became of that first.")
            return Decision(done=False, problem=words % {"who": shown(entries[0].user)})
        try:
            self._task_id = rerun(current_app, row)
        except Exception as error:  # noqa: BLE001  every transport has its own errors
            words = _("It was not sent: %(error)s. Is the broker up?")
            return Decision(done=False, problem=words % {"error": shown(repr(error))})
        reason = shown(form.cleaned_data["reason"])
        logger.warning(
            "%s ran %s %s again as %s: %s", who(request), row.task, row.task_id, self._task_id, reason
        )
        return DONE

    def done(self, row: FailedJob) -> str:  # noqa: ARG002
        return _("Published anew, as task id %(id)s.") % {"id": self._task_id}


def _entries(row: FailedJob) -> list[LogEntry]:
    """The re-runs of a failed job, the last one first."""
    kind = ContentType.objects.get_for_model(FailedJob)
    entries = LogEntry.objects.filter(content_type=kind, object_id=str(row.pk)).select_related("user")
    return list(entries.order_by("-action_time", "-pk"))
