"""The chaos as a program: `python -m tests.chaos --seed 7 --backend sqlite`, or `make chaos`. Exits 1 where a promise
was broken.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.harness import LONG, SHORT, Chaos, Stuck


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def one(plan, folder):
    """Whether every promise was kept."""
    folder = Path(folder or tempfile.mkdtemp(prefix="chaos-"), plan.backend)
    folder.mkdir(parents=True)
    say(f"--- {plan.backend}, seed {plan.seed}; ledger, logs and data in {folder}")
    try:
        summary = Chaos(plan, folder, say).run()
    except Stuck as stuck:
        say(f"STUCK: {stuck}")
        return False
    for text in summary.violations:
        say(f"VIOLATION: {text}")
    say(str(summary))
    return not summary.violations


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--backend", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--short", action="store_true", help="what the test suite runs")
    parser.add_argument("--folder", default=None, help="where everything is left; else a new one")
    for name in ("workers", "runs"):
        parser.add_argument(f"--{name}", type=int, default=None)
    for name in ("span", "every", "freezes", "limit"):
        parser.add_argument(f"--{name}", type=float, default=None)
    given = vars(parser.parse_args())
    backend, seed, folder, short = (given.pop(name) for name in ("backend", "seed", "folder", "short"))
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    plan = (SHORT if short else LONG)._replace(
        seed=seed, **{name: value for name, value in given.items() if value is not None}
    )
    began = time.monotonic()
    backends = ["sqlite", "postgres"] if backend == "both" else [backend]
    kept = [one(plan._replace(backend=name), folder) for name in backends]
    say(f"{'all promises kept' if all(kept) else 'FAILED'} in {time.monotonic() - began:.0f} s (seed {seed})")
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
