"""The options, calls and attempts of ``async_io``, without the driver and the worker's process.

The ``runner`` makes the calls of both engines, so that they run functions alike: under
``_worker.session`` for engine="jvm", and in a ``python_task`` for engine="python". The package uses
``_arrow`` and ``_base``, and neither py4j nor the worker's protocol.
"""
