"""Fields that are computed for each task and never stored: how much of the step limit is left.

    class State(TypedDict):
        remaining: RemainingSteps

A run with `recursion_limit=6` shows its first node 5, the next 4, and its last 0.
"""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import override

__all__ = ["IsLastStep", "IsLastStepManager", "ManagedValue", "RemainingSteps", "RemainingStepsManager"]


class ManagedValue:
    """Base of computed fields. A subclass stands in a field's metadata: `Annotated[int, RemainingStepsManager]`."""

    __slots__ = ()

    @staticmethod
    def value(step: int, stop: int) -> Any:
        """What a task of superstep `step` reads, when `stop` is the last that the run's limit allows.

        Both count alike: a fresh run with a limit of n has step 1 to n and stop n.
        """
        raise NotImplementedError


class RemainingStepsManager(ManagedValue):
    """How many more supersteps may follow the one that reads it."""

    __slots__ = ()

    @override
    @staticmethod
    def value(step: int, stop: int) -> int:
        return stop - step


class IsLastStepManager(ManagedValue):
    """Whether no superstep may follow the one that reads it."""

    __slots__ = ()

    @override
    @staticmethod
    def value(step: int, stop: int) -> bool:
        return step >= stop


RemainingSteps = Annotated[int, RemainingStepsManager]
IsLastStep = Annotated[bool, IsLastStepManager]
