"""`python -m durable_graph`."""

from __future__ import annotations

from durable_graph.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
