"""The engines and the bare driver behind one set of names. Programs of LangGraph and DBOS follow their public docs."""

import sqlite3
import warnings
from contextlib import asynccontextmanager, closing, contextmanager
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
        from checkpointers import InMemorySaver, SqliteSaver
        from durable_graph import END, START, Command, Send, StateGraph, interrupt
        from durable_graph.functional import entrypoint, task

        self.StateGraph, self.START, self.END = StateGraph, START, END
        self.Send, self.Command, self.interrupt = Send, Command, interrupt
        self.entrypoint, self.task = entrypoint, task
        self._memory, self._sqlite = InMemorySaver, SqliteSaver

    @cached_property
    def agents(self):
        return DurableAgents()

    @contextmanager
    def saver(self, store, folder):
        """A checkpointer; None for the store "none"."""
        if store == "none":
            yield None
        elif store == "memory":
            yield self._memory()
        else:
            with self._sqlite(Path(folder) / "durable_graph.db") as saver:
                yield saver

    @asynccontextmanager
    async def asaver(self, store, folder):
        """The same for the async face: the same object."""
        with self.saver(store, folder) as saver:
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
    def saver(self, store, folder):
        if store in ("none", "memory"):
            yield self._memory() if store == "memory" else None
        else:
            with self._sqlite.from_conn_string(str(Path(folder) / "langgraph.db")) as saver:
                yield saver

    @asynccontextmanager
    async def asaver(self, store, folder):
        if store in ("none", "memory"):
            yield self._memory() if store == "memory" else None
        else:
            async with self._async_sqlite.from_conn_string(str(Path(folder) / "langgraph.db")) as saver:
                yield saver


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


ROW = bytes(150)
"""As long as what durable_graph stores for a superstep of a tiny state."""

INSERT = """\
INSERT INTO record (thread, lane, part, seq, kind, data)
SELECT ?, 1, 0, ?, 0, ? WHERE EXISTS (SELECT 1 FROM thread WHERE no = ? AND epoch = ?)"""


def bare_inserts(folder, n, clock):
    """Seconds for n commits of one fenced insert each, by the driver alone: what a durable step must cost."""
    with closing(sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE IF NOT EXISTS thread (no INTEGER PRIMARY KEY, epoch INTEGER NOT NULL)")
        database.execute("""\
            CREATE TABLE IF NOT EXISTS record (
                thread INTEGER NOT NULL, lane INTEGER NOT NULL, part INTEGER NOT NULL, seq INTEGER NOT NULL,
                kind INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (thread, lane, part, seq)
            )""")
        thread = database.execute("INSERT INTO thread (epoch) VALUES (7)").lastrowid
        started = clock()
        for seq in range(n):
            if database.execute(INSERT, (thread, seq, ROW, thread, 7)).rowcount != 1:
                raise AssertionError(f"insert {seq} was refused")
        return clock() - started
