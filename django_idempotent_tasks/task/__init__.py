"""The class that a project's tasks use: it sends calls through ``sending`` and runs them through ``running``.

What every task instance has (``apply_async``, ``submit``, ``cancel``, ``self.idempotency``) comes in here.
Projects import this room before ``django.setup()``: its modules import models inside functions only.
"""
