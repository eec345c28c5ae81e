"""Runs random programs, kills parts of them, and says which seeds differ.

``python -m kills.campaign N SEED``, which is ``make soak-kills``.

Programs share drivers, since a JVM with Spark costs more than a program: a worker is killed for one
alone, an executor or a driver when all programs that have not ended wait to be hit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from java_options import java_options
from keyed.chaos import Process, kill
from keyed.order_runners import golden_jar
from kills.oracle import problems
from kills.programs import Program, program, write_input
from kills.service import Site, listen
from local_cluster import cluster_environment
from spark_apps import SOURCES, environment

TESTS = Path(__file__).parents[1]
FOLDER = TESTS.parents[1] / ".build/kills"
#: Programs that share a driver.
TOGETHER = 25
#: Nothing may be told to the service for so long.
QUIET_S = 180.0
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": "20",
    "spark.stage.maxConsecutiveAttempts": "20",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "50ms",
    "spark.driver.memory": "2g",
    "spark.executor.memory": "1g",
    "spark.pillarbox.state.maintenanceInterval": "1s",
    "spark.python.daemon.module": "preloading_daemon",
}


class Group:
    """Programs that run in one driver after the other, until all have ended."""

    def __init__(
        self, some: Sequence[Program], jar: Path, told: Callable[[Site, list[str]], None]
    ) -> None:
        self.folder = FOLDER / f"running-{os.getpid()}" / str(some[0].seed)
        self.cluster, self.jar, self.told = some[0].cluster, jar, told
        self.sites = {one.seed: Site(one, self.folder / str(one.seed)) for one in some}
        self.judged: set[int] = set()
        self.drivers = 0
        self.left: list[Process] = []
        for site in self.sites.values():
            write_input(site.program, site.folder)

    @property
    def open(self) -> list[Site]:
        return [site for site in self.sites.values() if site.end is None]

    async def run(self) -> None:
        server = await listen(self.sites)
        port = server.sockets[0].getsockname()[1]
        while self.open:
            app = await self.start(port)
            try:
                await self.watch(app)
            finally:
                await self.end(app)
            self.judge()
        server.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def start(self, port: int) -> asyncio.subprocess.Process:
        """With two cores by Spark's own count, then with four, and so on."""
        cores = 2 + 2 * (self.drivers % 2)
        self.drivers += 1
        master = "local-cluster[2,120,1024]" if self.cluster else "local[240,20]"
        conf = {
            "spark.master": master,
            "spark.default.parallelism": str(cores),
            "spark.jars": str(self.jar),
            **CONF,
        }
        settings = {"port": port, "conf": conf, "seeds": [site.program.seed for site in self.open]}
        paths = [str(TESTS), str(TESTS / "daemon"), SOURCES]
        env = cluster_environment(self.folder) if self.cluster else environment(None)
        env |= {
            "PYTHONPATH": os.pathsep.join(paths),
            "JDK_JAVA_OPTIONS": java_options(Path(sys.prefix)),
        }
        with open(self.folder / "log", "ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "kills.app", str(self.folder), json.dumps(settings),
                stdout=log, stderr=log, env=env, cwd=self.folder,
            )  # fmt: skip

    async def watch(self, app: asyncio.subprocess.Process) -> None:
        """Kills what is due, until the driver ends."""
        told, since = 0, time.monotonic()
        while app.returncode is None:
            await asyncio.sleep(0.01)
            self.judge()
            for site in self.open:
                site.look_at_files()
            self.strike(app.pid)
            notes = sum(len(site.log) for site in self.sites.values())
            if notes != told:
                told, since = notes, time.monotonic()
            if time.monotonic() - since > QUIET_S:
                self.stuck(app.pid)
                return
        if app.returncode >= 0:
            self.give_up(f"its driver ended with {app.returncode}")

    def stuck(self, pid: int) -> None:
        """The log of the driver then has its threads."""
        for one in Process.all():
            if one.parent == pid and "java" in one.command:
                os.kill(one.pid, signal.SIGQUIT)
        time.sleep(2)
        self.give_up(f"nothing was told for {QUIET_S} s")

    def give_up(self, why: str) -> None:
        for site in self.open:
            waits = (
                f", {'waits to be hit' if site.due else 'then'} by {site.next}" if site.next else ""
            )
            site.end = why + waits

    def strike(self, pid: int) -> None:
        due = [site for site in self.open if site.due]
        for site in due:
            if site.next and site.next.what == "worker":
                there = site.victim in {one.pid for one in Process.under(pid)}
                if there:
                    kill(site.victim)
                told = f"worker {site.victim}" if there else "no worker any more"
                site.struck(lambda one, dead=site.victim: one == dead, told)
        if not due or len(due) < len(self.open) or any(not site.due for site in self.open):
            return
        hit = [site for site in due if site.next and site.next.what == "executor"]
        if hit:
            self.kill_executors(pid, hit)
            return
        # Executors and workers find out by themselves, while the next driver starts.
        self.left += Process.under(pid)
        for one in self.left:
            if one.pid == pid or one.parent == pid:
                kill(one.pid)
        for site in due:
            site.struck(lambda _: True, "driver")

    def kill_executors(self, pid: int, sites: list[Site]) -> None:
        """Those that run what kills wait for; where nobody knows, any one."""
        there = Process.under(pid)
        executors = sorted(one.pid for one in there if "CoarseGrainedExecutor" in one.command)
        parts = {one: {of.pid for of in Process.under(one)} for one in executors}
        chosen = set()
        for site in sites:
            own = [one for one, of in parts.items() if site.victim in of]
            chosen |= set(
                own or random.Random(site.program.seed).sample(executors, min(1, len(executors)))
            )
        dead = set().union(*(parts[one] for one in chosen))
        for one in chosen:
            kill(one)
        for site in self.open:
            if site in sites:
                site.struck(lambda one: one in dead, f"executor {sorted(chosen)}")
            else:
                site.hit(lambda one: one in dead, "executor, of others")

    async def end(self, app: asyncio.subprocess.Process) -> None:
        """Leaves nothing behind that would call, or write."""
        if app.returncode is None:
            self.left += Process.under(app.pid)
        if not self.open or app.returncode is None:
            for one in set(self.left).intersection(Process.all()):
                kill(one.pid)
        await app.wait()

    def judge(self) -> None:
        for seed, site in self.sites.items():
            if site.end is not None and seed not in self.judged:
                self.judged.add(seed)
                found = problems(site.program, site.folder, site.log, site.end)
                if found:
                    self.keep(site, found)
                else:
                    shutil.rmtree(site.folder, ignore_errors=True)
                self.told(site, found)

    def keep(self, site: Site, found: list[str]) -> None:
        kept = FOLDER / str(site.program.seed)
        shutil.rmtree(kept, ignore_errors=True)
        # Threads that clean up may still delete files.
        with contextlib.suppress(shutil.Error):
            shutil.copytree(site.folder, kept)
        (kept / "program.txt").write_text("\n\n".join([repr(site.program), *found]) + "\n")
        (kept / "service.jsonl").write_text("".join(json.dumps(one) + "\n" for one in site.log))
        shutil.copy(self.folder / "log", kept / "driver.log")


def main(count: int, first: int) -> int:
    all_ = [program(seed) for seed in range(first, first + count)]
    began, kills, different = time.monotonic(), 0, []

    def told(site: Site, found: list[str]) -> None:
        nonlocal kills
        done.append(site.program.seed)
        killed = [
            entry["what"].split()[0]
            for entry in site.log
            if entry["event"] == "kill" and entry["own"] and not entry["what"].startswith("no ")
        ]
        kills += len(killed)
        if found:
            different.append(site.program.seed)
        left = (time.monotonic() - began) / len(done) * (count - len(done)) / 60
        what = f"DIFFERS: {found[0][:300]}" if found else "right"
        print(
            f"{len(done)} of {count}: seed {site.program.seed}, {site.program.name}, "
            f"killed {', '.join(killed) or 'nothing'}: {what} ({left:.0f} min left)",
            flush=True,
        )

    done: list[int] = []
    jar = golden_jar()
    for cluster in (False, True):
        some = [one for one in all_ if one.cluster == cluster]
        for at in range(0, len(some), TOGETHER):
            asyncio.run(Group(some[at : at + TOGETHER], jar, told).run())
    shutil.rmtree(FOLDER / f"running-{os.getpid()}", ignore_errors=True)
    seeds = f": seeds {', '.join(map(str, sorted(different)))}, see {FOLDER}" if different else ""
    print(f"{count} programs, {kills} kills, {len(different)} differ{seeds}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
