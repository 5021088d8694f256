"""Results kept by what they were computed from, so that the same work is done once.

`base` says what a cache is, `memory` is one. `keys` and `policy` make the key of a call. `flights` lets callers that
miss at the same time wait for one of them; `access` is one call's way through cache and flights.
"""

from __future__ import annotations

from durable_graph.caches.access import CacheAccess
from durable_graph.caches.base import BaseCache, FullKey, Namespace
from durable_graph.caches.flights import Flights
from durable_graph.caches.keys import default_cache_key
from durable_graph.caches.memory import InMemoryCache
from durable_graph.caches.policy import CachePolicy

__all__ = [
    "BaseCache",
    "CacheAccess",
    "CachePolicy",
    "Flights",
    "FullKey",
    "InMemoryCache",
    "Namespace",
    "default_cache_key",
]
