"""Asynchronous keyed functions: the runtime of ``_keyed`` with the attempts of ``_async``.

``key_queues`` starts the calls of rows, ``runtime`` gives them their state and keeps or undoes
their writes. Both run in workers and in the test harness. The package uses ``_keyed``, ``_async``,
``_arrow`` and ``_base``, and neither py4j nor the worker's protocol.
"""
