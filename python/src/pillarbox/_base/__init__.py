"""All other wings use this: checks of values, names and durations; functions, failures, reports.

Plain Python: nothing here knows Arrow, Spark's SQL, an event loop or state. It uses
``pillarbox.errors`` and nothing else of the package.
"""
