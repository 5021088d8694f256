"""Workflows as functions: `@entrypoint` and `@task`, on the same engine as graphs."""

from __future__ import annotations

from durable_graph.functional.entrypoint import entrypoint
from durable_graph.functional.task import task

__all__ = ["entrypoint", "task"]
