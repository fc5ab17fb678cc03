"""The action on a failed job: run the call of a plain task again."""

from __future__ import annotations

from typing import Any

from celery import current_app
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...models import FailedJob
from ...operations.dead_letters import DONE, Decision
from ...operations.reruns import rerun
from ...operations.tasks import known_task, unknown_task
from ..words.ledger import store
from ..words.wording import shown
from .audit import who
from .question import Question, ReasonForm
from .row import RowAction, number_of


class Rerun(RowAction):
    """Sends the call anew, with a new task id; no key keeps the work from being done twice."""

    slug = "rerun"
    label = gettext_lazy("Run it again")
    permissions = ("rerun_failedjob",)

    def __init__(self) -> None:
        self._task_id = ""

    def fits(self, row: FailedJob) -> bool:
        return row.digest is None and row.message is not None

    def unfit(self, row: FailedJob) -> str:
        if row.digest is not None:
            return _("This attempt belongs to a key: redrive its dead letter instead.")
        return _("The call's message is not stored: send the call again where it came from.")

    def question(self, request: HttpRequest, row: FailedJob) -> Question:  # noqa: ARG002
        lines = [
            _("The call is sent anew, with the same arguments and a new task id."),
            _("The task has no key: effects that happened before it failed will happen twice."),
        ]
        facts = [
            (_("task"), shown(row.task)),
            (_("task id"), shown(row.task_id)),
            (_("error"), shown(row.error)),
        ]
        warnings = []
        if known_task(row.task) is None:
            warnings.append(unknown_task())
        warnings += [
            _("%(who)s ran it again at %(at)s.")
            % {"who": shown(each.user), "at": f"{each.action_time:%Y-%m-%d %H:%M}"}
            for each in _reruns_of(row)[:5]
        ]
        title = _("Run %(job)s again?") % {"job": shown(row)}
        return Question(title, _("Run it again"), lines, facts, warnings)

    def mark(self, row: FailedJob) -> str:
        """The state: a rerun moves the row to PENDING, so a second form no longer fits."""
        return str(row.state)

    def as_seen(self, row: Any, mark: str) -> Any:
        row.state = number_of(mark)
        return row

    def carry_out(self, request: HttpRequest, row: FailedJob, form: ReasonForm) -> Decision:
        done = rerun(current_app, store(), row, by=who(request), reason=form.cleaned_data["reason"])
        if done.problem:
            return Decision(done=False, problem=done.problem)
        self._task_id = done.task_id
        return DONE

    def done(self, row: FailedJob) -> str:  # noqa: ARG002
        return _("Sent anew, as task id %(id)s.") % {"id": self._task_id}


def _reruns_of(row: FailedJob) -> list[LogEntry]:
    """The log entries of a failed job's reruns, the last one first."""
    kind = ContentType.objects.get_for_model(FailedJob)
    entries = LogEntry.objects.filter(content_type=kind, object_id=str(row.pk)).select_related("user")
    return list(entries.order_by("-action_time", "-pk"))
