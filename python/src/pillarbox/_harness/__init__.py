"""What the test harness adds to the keyed runtime: all keys in memory, snapshots, restarts.

It uses ``_keyed``, and belongs to ``pillarbox.testing`` alone.
"""
