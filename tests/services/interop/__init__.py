"""With the real libraries that stamp what Celery sends, where the extra ``interop`` is installed.

They patch Celery for a whole process, so each test sends and works in processes of its own.
"""
