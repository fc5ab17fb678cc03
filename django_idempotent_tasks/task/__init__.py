"""The class that a project's tasks use: it sends calls through ``sending`` and runs them through ``running``.

What every task instance has (``apply_async``, ``submit``, ``cancel``, ``self.idempotency``) comes in here.
Projects import it before ``django.setup()``, so that modules here reach the models inside functions only.
"""
