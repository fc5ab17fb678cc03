"""The pages: all pairs of a teacher's schools, one pair with its button, and the two things to do there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from django_idempotent_tasks.http import job_document, submit_response
from django_idempotent_tasks.states import LIVE

from .access import Pair, schools_of
from .models import School
from .samples import make_samples
from .tasks import generate_plan

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

HTML, JSON = "text/html", "application/json"
REFUSED = "This plan is being made already. Your click was refused: nothing was started twice."
CANCELLED = "Cancelled. The weeks that were written are kept for the next time."
TOO_LATE = "There is nothing to cancel any more."


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Every pair of this teacher's schools."""
    schools = schools_of(request.user).prefetch_related("student_set", "course_set")
    return render(request, "study_plans/index.html", {"schools": schools})


@login_required
@require_POST
def seed(request: HttpRequest) -> HttpResponse:
    """Make two schools to try, for an administrator whose project has none."""
    if not request.user.is_superuser or School.objects.exists():
        raise PermissionDenied
    for name, password in make_samples().items():
        messages.info(request, f"Made {name}, whose password is shown once: {password}")
    return redirect("study_plans:index")


@login_required
@require_GET
@never_cache
def show(request: HttpRequest, school: str, student_id: int, course_id: int) -> HttpResponse:
    """The plan of one pair, and the job that makes it."""
    return _page(request, Pair.of(request.user, school, student_id, course_id))


@login_required
@require_POST
def generate(request: HttpRequest, school: str, student_id: int, course_id: int) -> HttpResponse:
    """Start the generation: a second click gets 409 and the job that runs, as JSON or on the page."""
    pair = Pair.of(request.user, school, student_id, course_id)
    # Not the address's word for the school: MariaDB finds NORTH where north is meant, the ledger does not.
    scope = pair.school.slug
    answer = submit_response(request, generate_plan, pair.arguments, scope=scope, key=pair.key)
    if request.get_preferred_type([HTML, JSON]) == JSON:
        return answer
    if answer.status_code in {200, 202}:
        return redirect("study_plans:show", school, student_id, course_id)
    said = REFUSED if answer.status_code == 409 else json.loads(answer.content)["detail"]  # noqa: PLR2004
    page = _page(request, pair, said=said, status=answer.status_code)
    if "Retry-After" in answer:
        page["Retry-After"] = answer["Retry-After"]
    return page


@login_required
@require_POST
def cancel(request: HttpRequest, school: str, student_id: int, course_id: int) -> HttpResponse:
    """Cancel the job that was seen, and no later one."""
    pair = Pair.of(request.user, school, student_id, course_id)
    row, seen = pair.row, request.POST.get("job", "")
    is_it = row is not None and row.task_id == seen
    outcome = generate_plan.cancel(task_id=seen) if is_it else "not_found"
    messages.info(request, CANCELLED if outcome == "cancelled" else TOO_LATE)
    return redirect("study_plans:show", school, student_id, course_id)


def _page(request: HttpRequest, pair: Pair, *, said: str = "", status: int = 200) -> HttpResponse:
    row, plan = pair.row, pair.plan
    context = {
        "pair": pair,
        "job": None if row is None else job_document(row),
        "is_live": row is not None and row.state in LIVE,
        "plan": plan,
        "weeks": [] if plan is None else plan.week_set.all(),
        "said": said,
    }
    return render(request, "study_plans/plan.html", context, status=status)
