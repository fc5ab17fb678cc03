"""Takes an organiser's file in: looks through it once, then hands its rows to a batch, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.files.uploadhandler import FileUploadHandler, StopUpload

from django_idempotent_tasks import submit_batch

from .models import Event, Upload
from .rows import UNPRINTABLE
from .table import Bytes, Table
from .tasks import register, upload_finished

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Bytes of a file: 100,000 rows have about 10 MB.
DEFAULT_LIMIT = 32 * 1024 * 1024

#: Rows of one call: few enough that a killed worker costs little, enough that a call is worth its row.
CHUNK = 50


class Quota(FileUploadHandler):
    """Stops keeping a file that is larger than the limit; the rest of it is read and thrown away."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self.exceeded = False
        self.limit = int(getattr(settings, "REGISTRATIONS_MAX_BYTES", DEFAULT_LIMIT))
        self._left = self.limit

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:  # noqa: ARG002
        """Count, and hand on to the next handler."""
        self._left -= len(raw_data)
        if self._left < 0:
            self.exceeded = True
            raise StopUpload(connection_reset=False)
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Leave the file to the next handler."""


def take_in(event: Event, file: Bytes, *, name: str, by: str) -> tuple[Upload, bool]:
    """Return the file's upload, whose rows are all accepted, and whether it was not there before.

    Raises :class:`TableError` before anything is accepted. The same file sent again is the same upload,
    also while the first one is being taken in, or after it died half way: then it goes on.
    """
    table = Table(file)
    summary = table.summary()
    facts = {"name": UNPRINTABLE.sub("", name)[:100] or "unnamed", "rows": summary.rows, "by": by}
    upload, is_new = Upload.objects.get_or_create(event=event, digest=summary.digest, defaults=facts)
    submit_rows(upload, table)
    return upload, is_new


def submit_rows(upload: Upload, table: Table) -> None:
    """Accept every row; what is accepted already stays as it is."""
    arguments: dict[str, Any] = {"upload": str(upload.pk)}
    batch = submit_batch(
        register,
        table.rows(),
        chunk_size=CHUNK,
        batch_key=str(upload.pk),
        scope=upload.event.tenant_id,
        callback=upload_finished.s(**arguments),
        kwargs=arguments,
    )
    Upload.objects.filter(pk=upload.pk).update(batch=batch.id)
    upload.batch = batch.id
