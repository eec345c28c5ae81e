"""Memory that is freed and asked for again."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from pillarbox._worker.freed_memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def pages_of_a_frame():
    before = faults()
    blocks = [bytearray(size << 20) for size in (4, 12, 20)]
    del blocks
    return faults() - before

if {keeps}:
    keep_freed_memory()
pages_of_a_frame()
print(pages_of_a_frame())
"""


def pages(keeps: bool) -> int:
    command = [sys.executable, "-c", PROGRAM.format(keeps=keeps)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to")
def test_a_second_frame_finds_the_memory_of_the_first() -> None:
    assert pages(keeps=True) < pages(keeps=False) / 4
