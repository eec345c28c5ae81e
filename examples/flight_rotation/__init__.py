"""The rotation of aircraft: state, timers and TTL on a stream that is killed half way.

`python -m flight_rotation` runs it; `job.py` is the part to copy.
"""
