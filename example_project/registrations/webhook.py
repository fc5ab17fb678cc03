"""The endpoint for webhooks of registrations' payments, checked and accepted as those of all payments are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from example_project.payments.views import answer

from .tasks import take_payment

if TYPE_CHECKING:
    from django.http import HttpRequest, JsonResponse


@csrf_exempt
@require_POST
def receive(request: HttpRequest, tenant: str) -> JsonResponse:
    """Answer one webhook: 202 when its work is accepted (again), else why not."""
    return answer(request, tenant, take_payment)
