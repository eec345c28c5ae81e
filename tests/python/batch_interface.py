"""A service with a batch interface, in a folder, so that it outlives every process that uses it."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

import pillarbox as pb


@dataclass(frozen=True)
class BatchInterface:
    """Jobs of numbers, whose answer is twice the number. None is done before ``finish``.

    Each submission is a job of its own, also under a key that is known: a test sees what is
    submitted twice.
    """

    folder: str

    def submit(self, rows: Any) -> str:
        """Take the job of a row or of a list of rows."""
        of_list = isinstance(rows, list)
        ids = [row.id for row in rows] if of_list else rows.id
        job = self._note("jobs", {"ids": ids, "key": pb.current_call().id, "pid": os.getpid()})
        return f"job {job}"

    def collect(self, ticket: str) -> Any:
        """Return the answers of a job once it is done."""
        self._note("polls", {"ticket": ticket})
        if not Path(self.folder, "done").exists():
            return None
        ids = self.jobs[int(ticket.split()[1])]["ids"]
        return [2 * one for one in ids] if isinstance(ids, list) else 2 * ids

    def finish(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        Path(self.folder, "done").touch()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return self._noted("jobs")

    @property
    def submitted(self) -> Counter[int]:
        """How often each number was submitted."""
        ids = (job["ids"] for job in self.jobs)
        return Counter(one for some in ids for one in (some if isinstance(some, list) else [some]))

    @property
    def polls(self) -> list[str]:
        return [poll["ticket"] for poll in self._noted("polls")]

    def _note(self, what: str, fields: dict[str, Any]) -> int:
        """Add a line to a file, and return its number."""
        import fcntl

        os.makedirs(self.folder, exist_ok=True)
        with open(f"{self.folder}/{what}", "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = len(file.readlines())
            file.write(json.dumps(fields) + "\n")
            return number

    def _noted(self, what: str) -> list[dict[str, Any]]:
        file = Path(self.folder, what)
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]


cloudpickle.register_pickle_by_value(sys.modules[__name__])
