"""The Python worker of a Spark executor, for the operators of the JVM.

The JVM owns order, capacity, deadlines, retries and state; the worker runs functions and reports
the end of each call. Frames arrive through ``channel`` and ``frames``; ``session`` turns them into
calls of ``_async.runner``, ``keyed_session`` into rows and timers of ``_keyed.runtime``; answers
return as frames. The package uses ``_async``, ``_keyed``, ``_keyed_async``, ``_arrow`` and
``_base``, and neither py4j nor ``_driver``.
"""
