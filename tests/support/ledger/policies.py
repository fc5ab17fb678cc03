"""A task's policy for tests that use the ledger without a worker."""

from __future__ import annotations

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.conf.options import Policy, read_policy


class Charge(IdempotentTask):
    """A task with the defaults of every option but two."""

    name = "shop.charge"
    key = "order_id"
    retention = 0

    def run(self, order_id: int) -> int:
        """Do nothing."""
        return order_id


POLICY: Policy = read_policy(Charge)
