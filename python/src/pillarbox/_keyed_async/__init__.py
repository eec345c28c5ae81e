"""Asynchronous keyed functions: the runtime of ``_keyed`` with the attempts of ``_async``.

``key_queues`` says which row may be called for, ``runtime`` what a call sees, and what of it
counts. It runs in workers and in the test harness. Nothing here may use py4j or the worker's
protocol. It uses ``_keyed``, ``_async``, ``_arrow`` and ``_base``.
"""
