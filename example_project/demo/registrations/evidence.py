"""Reads what came of an upload, by line: from tables, the batch, the gateway and the printer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from example_project.payments.models import Charge, Notification, Payment, Status
from example_project.registrations.models import Badge, Registration, Upload
from example_project.registrations.report import failed_rows

from ..judging.observe import ask
from .verdict import Outcome

if TYPE_CHECKING:
    from ..stage import Stage


class Evidence:
    """What is known of one upload."""

    def __init__(self, stage: Stage, upload: Upload) -> None:
        self._stage = stage
        self.upload = upload
        self._prefix = f"reg-{upload.pk.hex}-"
        #: The category of each line that had failed when nothing went on by itself any more.
        self.first: dict[int, str] = {}
        self.callbacks_before = 0

    def note_failures(self) -> None:
        """Note what has failed before anybody decides about it."""
        self.first = self._failed()
        self.callbacks_before = self._callbacks()

    def outcome(self) -> Outcome:
        """Everything, for the verdict."""
        registered = Registration.objects.filter(upload=self.upload, accepted_at__isnull=False)
        references = registered.values_list("reference", flat=True)
        completed = Payment.objects.filter(status=Status.COMPLETED, payment_id__startswith=self._prefix)
        paid = registered.filter(paid_at__isnull=False, reference__in=completed.values("payment_id"))
        return Outcome(
            registered=self._lines(references),
            charged=self._lines(self.charged()),
            booked=self._lines(Charge.objects.values_list("payment_id", flat=True)),
            noted=self._lines(Badge.objects.values_list("registration__reference", flat=True)),
            printed=self._lines(ask(self._stage.printer_address, "/sheets")["sheets"]),
            unpaid=self._lines(
                registered.exclude(pk__in=paid.values("pk")).values_list("reference", flat=True)
            ),
            first=self.first,
            last=self._failed(),
            callbacks_before=self.callbacks_before,
            callbacks=self._callbacks(),
        )

    def charged(self) -> list[str]:
        """The gateway's references, without the tenant."""
        charges = ask(self._stage.gateway_address, "/charges")["charges"]
        return [charge["reference"].partition("/")[2] for charge in charges]

    def _lines(self, references: Iterable[str]) -> list[int]:
        return [int(name.removeprefix(self._prefix)) for name in references if name.startswith(self._prefix)]

    def _failed(self) -> dict[int, str]:
        return {int(row.value["line"]): row.category for row in failed_rows(self.upload)}

    def _callbacks(self) -> int:
        return Notification.objects.filter(payment_id=f"upload-{self.upload.pk.hex}").count()
