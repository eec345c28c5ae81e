"""This runs inside the Python worker of a Spark executor, for the operators of the JVM.

The JVM owns order, capacity, deadlines, retries and state; the worker runs functions and reports
how each call ended. Frames come in through ``channel`` and ``frames``; ``session`` turns them to
calls of ``_async.runner``, ``keyed_session`` to rows and timers of ``_keyed.runtime``; answers go
back as frames. Nothing here may use py4j or ``_driver``. It uses ``_async``, ``_keyed``, ``_arrow``
and ``_base``.
"""
