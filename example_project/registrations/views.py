"""The pages: an organiser's events, one with its form, an upload, its errors as CSV, and what to do there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_GET, require_POST

from .access import event_of, events_of, upload_of
from .corrections import correction_lines
from .models import Event
from .report import batch_of, failed_rows, first_failed, report_of
from .samples import make_sample
from .table import COLUMNS, MOST_ROWS, TableError
from .uploading import Quota, take_in

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

#: Seconds after which it is worth to look again.
LOOK_AGAIN = 1
SENT_BEFORE = "This very file was sent before, and was not taken twice. This is what has become of it."
NO_FILE = "Choose a file first."
TOO_LARGE = "The file is larger than {:,} bytes. Divide it, and send the parts. Nothing was registered."
#: What a person may have tried again, and what must be different by then.
AGAIN = {
    "retryable": "The provider is asked again.",
    "manual_review": "The rows that waited for a person are tried again.",
}


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The events of this organiser."""
    return render(request, "registrations/index.html", {"events": events_of(request.user)})


@login_required
@require_POST
def seed(request: HttpRequest) -> HttpResponse:
    """Make an event to try, for an administrator whose project has none."""
    if not request.user.is_superuser or Event.objects.exists():
        raise PermissionDenied
    return redirect("registrations:event", make_sample().pk)


@login_required
@require_GET
@never_cache
def show_event(request: HttpRequest, event: int) -> HttpResponse:
    """One event: its tickets, its uploads, and the form."""
    return _event_page(request, event_of(request.user, event))


# Not exempt: checked below, when it is settled how much of the body is read for it.
@csrf_exempt
@login_required
@require_POST
def send(request: HttpRequest, event: int) -> HttpResponse:
    """Take a file in. What is wrong with it as a whole is said on the page, and nothing was registered."""
    quota = Quota(request)
    request.upload_handlers.insert(0, quota)
    return _send(request, event_of(request.user, event), quota)


@csrf_protect
def _send(request: HttpRequest, event: Event, quota: Quota) -> HttpResponse:
    file = request.FILES.get("file")
    if quota.exceeded:
        return _event_page(request, event, said=TOO_LARGE.format(quota.limit), status=413)
    if file is None:
        return _event_page(request, event, said=NO_FILE, status=400)
    try:
        upload, is_new = take_in(event, file, name=file.name or "", by=request.user.get_username())
    except TableError as refusal:
        return _event_page(request, event, said=f"{file.name}: {refusal} Nothing was registered.", status=400)
    if not is_new:
        messages.info(request, SENT_BEFORE)
    return redirect("registrations:upload", upload.pk)


@login_required
@require_GET
@never_cache
def show_upload(request: HttpRequest, upload: UUID) -> HttpResponse:
    """What has become of an upload."""
    found = upload_of(request.user, upload)
    context = {"upload": found, "report": report_of(found), "failed": first_failed(found)}
    return render(request, "registrations/upload.html", context)


@login_required
@require_GET
@never_cache
def status(request: HttpRequest, upload: UUID) -> JsonResponse:
    """The counts alone, for the page's script."""
    document = report_of(upload_of(request.user, upload)).document()
    return JsonResponse(document, headers={"Retry-After": str(LOOK_AGAIN)})


@login_required
@require_GET
@never_cache
def corrections(request: HttpRequest, upload: UUID) -> StreamingHttpResponse:
    """The rows that failed, to mend and to send again as a file of their own."""
    found = upload_of(request.user, upload)
    headers = {"Content-Disposition": 'attachment; filename="to-mend.csv"'}
    return StreamingHttpResponse(
        correction_lines(failed_rows(found)), content_type="text/csv; charset=utf-8", headers=headers
    )


@login_required
@require_POST
def again(request: HttpRequest, upload: UUID) -> HttpResponse:
    """Try the rows of one category again."""
    found = upload_of(request.user, upload)
    batch, category = batch_of(found), request.POST.get("category", "")
    if batch is None or category not in AGAIN:
        raise PermissionDenied
    # What is retryable is a chunk that waits for somebody, and goes on where it was. What had to be looked at
    # gets a chunk of its own.
    chosen = None if category == "retryable" else category
    batch.redrive(chosen, by=request.user.get_username(), reason="asked for on the upload's page")
    messages.info(request, AGAIN[category])
    return redirect("registrations:upload", found.pk)


def _event_page(request: HttpRequest, event: Event, *, said: str = "", status: int = 200) -> HttpResponse:
    context = {
        "event": event,
        "tickets": event.tickets.all(),
        "uploads": event.upload_set.all()[:20],
        "columns": ", ".join(COLUMNS),
        "most_rows": f"{MOST_ROWS:,}",
        "said": said,
    }
    return render(request, "registrations/event.html", context, status=status)
