"""The base of all other packages: checks of values, names, durations, functions, failures, reports.

It is plain Python without Arrow, Spark's SQL, event loops or state, and uses ``pillarbox.errors``
and nothing else of the package.
"""
