"""The layout: how checkpoints lie in rows. Pure functions of their arguments: no I/O, clock, or randomness.

A lane's rows in part 0 are its line, in order of seq:

    BASE      all keys: their names, numbers, versions, and for each its value or where it is
    DELTA     only the keys that changed since the checkpoint before
    PENDING   what became known of the next step before it closed: finished tasks, answers

Values of at most 256 bytes are in these rows. A large list is a log: rows of kind LOG in the part with its
channel's number, each a chunk of encoded elements. Any other large value is one row of kind VALUE there. What
a row needs to know of values apart is only where they are: for a log, spans of (lane, first seq, last seq).

What follows from it:

- An append stores what was appended; a large value that is not touched costs nothing.
- The version of a changed key is the seq of the row that says so, so it is not stored.
- Loading is one scan from a BASE to the lane's end, and one range per value apart. A BASE is written when the
  rows since
  the last one outweigh it, so bases at most double the bytes, and the scan stays short.
- A branch is a new lane whose first row is a BASE with the parent's keys. It shares the parent's chunks
  through spans,
  and never sees the parent's pending rows.
- Numbers of lanes, seqs and channels are local to a thread: a thread is copied by copying its rows.
- What tasks wrote is mostly what the keys hold now: a write points to bytes in the same row where it can.

The modules: `rows` the bytes of one row · `line` what rows add up to · `packing` the structure of records ·
`lane` the writer · `reading` the reader.
"""

from __future__ import annotations

from durable_graph.persistence.lane import INLINE_LIMIT, LaneWriter
from durable_graph.persistence.reading import read_at, read_head, read_history

__all__ = ["INLINE_LIMIT", "LaneWriter", "read_at", "read_head", "read_history"]
