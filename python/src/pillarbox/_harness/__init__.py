"""The test harness over the keyed runtime: all keys in memory, snapshots, restarts.

It uses ``_keyed``, and only ``pillarbox.testing`` uses it.
"""
