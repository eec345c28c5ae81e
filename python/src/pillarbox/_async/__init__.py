"""``async_io`` without the driver and without the worker's process: options, calls, attempts.

The ``runner`` makes the calls of both engines, so that they run functions alike: in the worker of
engine="jvm" under ``_worker.session``, and in a ``python_task``, which is what engine="python" runs
in a task. Nothing here may use py4j or the worker's protocol. It uses ``_arrow`` and ``_base``.
"""
