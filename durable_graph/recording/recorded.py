"""Time, random numbers and uuids that stay the same when a node runs again.

    from durable_graph import recorded

    started = recorded.now()
    dice = recorded.random()

The time is recorded like a step. Random numbers and uuids are made from the task's idempotency key, so they need no
storage; who knows the thread can compute them: they guard no secret.
"""

from __future__ import annotations

import random as _random
from datetime import UTC, datetime
from uuid import UUID

from durable_graph.recording.doing import do_step
from durable_graph.recording.step import Step, take_place
from durable_graph.runtime.callables import Body

__all__ = ["now", "random", "uuid4"]


def now() -> datetime:
    """The time (UTC) at which this line was first reached in this task.

    Raises:
        OutsideRunError: no node runs here.
    """
    return do_step(take_place(_NOW, (), {}), _NOW, (), {})


def random() -> float:
    """A random number from 0 up to 1, the same whenever this task gets here.

    Raises:
        OutsideRunError: no node runs here.
    """
    return _random.Random(_seed("recorded.random")).random()  # noqa: S311 - no secret


def uuid4() -> UUID:
    """A random UUID, the same whenever this task gets here.

    Raises:
        OutsideRunError: no node runs here.
    """
    return UUID(bytes=bytes.fromhex(_seed("recorded.uuid4")), version=4)


def _seed(name: str) -> str:
    return take_place(Step(name, _NOW.body), (), {}).idempotency_key


_NOW = Step("recorded.now", Body(lambda: datetime.now(UTC)))
