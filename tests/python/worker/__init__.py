"""Tests of the worker, driven over a socket pair as the JVM drives it."""
