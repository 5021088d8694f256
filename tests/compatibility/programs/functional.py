"""A program without a drawn graph: an entrypoint calls tasks, and remembers what it saved.

Needs: durable_graph:entrypoint durable_graph:task

Prints:

    15
    115
"""

# ruff: noqa: T201 - a program talks to a person

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task


@task
def double(number: int) -> int:
    return number * 2


@entrypoint(checkpointer=InMemorySaver())
def total(numbers: list[int], *, previous: int | None = None) -> entrypoint.final[int, int]:
    futures = [double(number) for number in numbers]
    result = sum(future.result() for future in futures) // 2 + (previous or 0)
    return entrypoint.final(value=result, save=100)


config = {"configurable": {"thread_id": "t"}}
print(total.invoke([4, 5, 6], config))
print(total.invoke([4, 5, 6], config))
