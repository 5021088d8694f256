"""The engines behind one set of names. Programs of LangGraph and DBOS follow their public docs.

`saver(store, place, many=…)` and `asaver` give a checkpointer; None for the store "none". `place`: of `places`. `many`:
many OS threads or asyncio tasks use it at once.
"""

import warnings
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path


class OwnModel:
    """A chat model that is a function of the history and, unlike a scripted one, keeps nothing of it."""

    def __init__(self, answer):
        self._answer = answer

    def bind_tools(self, tools, **_):
        return self

    def invoke(self, messages, config=None, **_):
        return self._answer(messages)

    async def ainvoke(self, messages, config=None, **_):
        return self._answer(messages)


class DurableAgents:
    """What agents are made of."""

    def __init__(self):
        from durable_graph.agents import create_agent
        from durable_graph.messages import AIMessage, MessagesState
        from durable_graph.prebuilt import ToolNode, create_react_agent, tools_condition

        self.AIMessage, self.MessagesState, self.model = AIMessage, MessagesState, OwnModel
        self.ToolNode, self.tools_condition = ToolNode, tools_condition
        self.create_react_agent, self.create_agent = create_react_agent, create_agent


class DurableGraph:
    def __init__(self):
        from checkpointers import InMemorySaver, PostgresSaver, SqliteSaver
        from durable_graph import END, START, Command, Send, StateGraph, interrupt
        from durable_graph.functional import entrypoint, task

        self.StateGraph, self.START, self.END = StateGraph, START, END
        self.Send, self.Command, self.interrupt = Send, Command, interrupt
        self.entrypoint, self.task = entrypoint, task
        self._memory, self._sqlite, self._postgres = InMemorySaver, SqliteSaver, PostgresSaver

    @cached_property
    def agents(self):
        return DurableAgents()

    @contextmanager
    def saver(self, store, place, *, many=False):
        if store in ("none", "memory"):
            yield self._memory() if store == "memory" else None
            return
        with self._postgres(place) if store == "postgres" else self._sqlite(Path(place) / "runs.db") as saver:
            yield saver

    @asynccontextmanager
    async def asaver(self, store, place, *, many=False):
        with self.saver(store, place, many=many) as saver:
            yield saver


class LangGraphAgents:
    """What agents are made of. `model` is the least that LangChain's base class asks of a chat model."""

    def __init__(self):
        from langchain.agents import create_agent
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langgraph.graph import MessagesState
        from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition

        class Model(BaseChatModel):
            answer: object

            def bind_tools(self, tools, **options):
                return self

            def _generate(self, messages, stop=None, run_manager=None, **options):
                return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])

            @property
            def _llm_type(self):
                return "function"

        self.AIMessage, self.MessagesState = AIMessage, MessagesState
        self.model = lambda answer: Model(answer=answer)
        self.ToolNode, self.tools_condition = ToolNode, tools_condition
        self._create_react_agent, self.create_agent = create_react_agent, create_agent

    def create_react_agent(self, *arguments, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated, and still what most programs use
            return self._create_react_agent(*arguments, **options)


class LangGraph:
    def __init__(self):
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
        from langgraph.func import entrypoint, task
        from langgraph.graph import END, START, StateGraph
        from langgraph.types import Command, Send, interrupt

        self.StateGraph, self.START, self.END = StateGraph, START, END
        self.Send, self.Command, self.interrupt = Send, Command, interrupt
        self.entrypoint, self.task = entrypoint, task
        self._memory, self._sqlite, self._async_sqlite = InMemorySaver, SqliteSaver, AsyncSqliteSaver

    @cached_property
    def agents(self):
        return LangGraphAgents()

    @contextmanager
    def saver(self, store, place, *, many=False):
        if store in ("none", "memory"):
            yield self._memory() if store == "memory" else None
        elif store == "postgres":
            with self._postgres_saver(place, many) as saver:
                saver.setup()
                yield saver
        else:
            with self._sqlite.from_conn_string(str(Path(place) / "runs.db")) as saver:
                yield saver

    @asynccontextmanager
    async def asaver(self, store, place, *, many=False):
        if store in ("none", "memory"):
            yield self._memory() if store == "memory" else None
        elif store == "postgres":
            async with self._async_postgres_saver(place, many) as saver:
                await saver.setup()
                yield saver
        else:
            async with self._async_sqlite.from_conn_string(str(Path(place) / "runs.db")) as saver:
                yield saver

    @contextmanager
    def _postgres_saver(self, dsn, many):
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg_pool import ConnectionPool

        if not many:
            with PostgresSaver.from_conn_string(dsn) as saver:
                yield saver
            return
        with ConnectionPool(dsn, max_size=SESSIONS, kwargs=_of_sessions()) as pool:
            yield PostgresSaver(pool)

    @asynccontextmanager
    async def _async_postgres_saver(self, dsn, many):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg_pool import AsyncConnectionPool

        if not many:
            async with AsyncPostgresSaver.from_conn_string(dsn) as saver:
                yield saver
            return
        async with AsyncConnectionPool(dsn, max_size=SESSIONS, kwargs=_of_sessions()) as pool:
            yield AsyncPostgresSaver(pool)


SESSIONS = 20
"""Sessions of LangGraph's pool at the most."""


def _of_sessions():
    """What its docs ask of the sessions of a pool."""
    from psycopg.rows import dict_row

    return {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


LIBRARIES = {"durable_graph": DurableGraph, "langgraph": LangGraph}


class Dbos:
    """DBOS with its default settings for a system database in SQLite: a rollback journal, not a write-ahead log."""

    def __init__(self):
        from dbos import DBOS

        @DBOS.step()
        def work(number):
            return number

        @DBOS.workflow()
        def flow(n):
            return sum(work(number) for number in range(n))

        self._dbos, self._flow = DBOS, flow

    def steps(self, folder, warm_up, n, clock):
        """Seconds for one workflow of n steps."""
        file = Path(folder) / "dbos.db"
        self._dbos(config={"name": "bench", "system_database_url": f"sqlite:///{file}", "log_level": "ERROR"})
        self._dbos.launch()
        try:
            self._flow(warm_up)
            started = clock()
            self._flow(n)
            return clock() - started
        finally:
            self._dbos.destroy()
