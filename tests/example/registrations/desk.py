"""An organiser in front of an event's page, and a worker beside it."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import BatchChunk, IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.registrations.models import Event, Upload
from example_project.registrations.tasks import register, upload_finished

HEADER = "email,name,ticket,quantity\n"


def attendees(count: int, *, ticket: str = "standard", first: int = 0) -> str:
    return "".join(f"a{n}@x.org,Ann {n},{ticket},1\n" for n in range(first, first + count))


class Desk:
    """An organiser in front of the event's page."""

    def __init__(self, event: Event, name: str = "ann") -> None:
        self.user = User.objects.create_user(name, password="secret")
        event.organisers.add(self.user)
        self.client = Client()
        self.client.force_login(self.user)
        self.event = event

    def send(self, rows: str | bytes, *, header: str = HEADER, name: str = "attendees.csv") -> Any:
        body = rows if isinstance(rows, bytes) else (header + rows).encode()
        file = SimpleUploadedFile(name, body, content_type="text/csv")
        return self.client.post(f"/registrations/{self.event.pk}/send/", {"file": file})

    def sent(self, rows: str | bytes, **how: Any) -> Upload:
        answer = self.send(rows, **how)
        assert answer.status_code == 302, answer.content.decode()
        number = answer["Location"].split("/")[-2]
        return Upload.objects.get(pk=number)

    def look(self, upload: Upload, more: str = "") -> Any:
        return self.client.get(f"/registrations/uploads/{upload.pk}/{more}")

    def again(self, upload: Upload, category: str) -> Any:
        return self.client.post(f"/registrations/uploads/{upload.pk}/again/", {"category": category})

    def to_mend(self, upload: Upload) -> list[dict[str, str]]:
        text = b"".join(self.look(upload, "to-mend.csv").streaming_content).decode("utf-8-sig")
        return list(csv.DictReader(io.StringIO(text)))


def run_what_is_due(upload: Upload) -> None:
    """Run the chunks that wait as a worker does, let the batch know, and run what comes after it."""
    _run_waiting(register)
    digests = BatchChunk.objects.filter(batch_id=str(upload.batch)).values_list("digest", flat=True)
    batches.follow(get_store(), list(digests))
    _run_waiting(upload_finished)


def _run_waiting(task: Any) -> None:
    for key in IdempotencyKey.objects.filter(task=task.name, state=State.PENDING):
        call = json.loads(key.message or "")
        headers = {"idempotency": call["options"]["headers"]["idempotency"]}
        task.apply(call["args"], call["kwargs"], task_id=key.task_id, headers=headers)
