"""Lists the public names of LangGraph and the parameters of its callables, for `langgraph_names.toml`.

Run it by hand, with the Python of a virtual environment of its own that has langgraph, langgraph-checkpoint-sqlite,
langgraph-checkpoint-postgres and langchain, when a new LangGraph is to be compared with:

    python tests/compatibility/listing.py > tests/compatibility/langgraph_names.toml

Only names are taken, by `__all__`, `dir` and `inspect.signature`.
"""

import importlib
import inspect
import sys
import textwrap
import types
import warnings
from importlib.metadata import version

VERSIONS = (
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langgraph-prebuilt",
    "langchain",
)

# Modules whose names people import. After the colon: names that neither `__all__` nor a definition shows.
MODULES = """
    langgraph.graph
    langgraph.graph.state
    langgraph.graph.message
    langgraph.graph.ui
    langgraph.types
    langgraph.channels
    langgraph.channels.any_value
    langgraph.channels.base
    langgraph.channels.binop
    langgraph.channels.delta
    langgraph.channels.ephemeral_value
    langgraph.channels.last_value
    langgraph.channels.named_barrier_value
    langgraph.channels.topic
    langgraph.channels.untracked_value
    langgraph.managed
    langgraph.managed.base
    langgraph.managed.is_last_step: RemainingSteps
    langgraph.func
    langgraph.pregel
    langgraph.pregel.main
    langgraph.pregel.protocol
    langgraph.pregel.remote
    langgraph.pregel.types
    langgraph.runtime
    langgraph.config
    langgraph.constants: Send Interrupt
    langgraph.errors
    langgraph.callbacks
    langgraph.stream
    langgraph.warnings
    langgraph.typing
    langgraph.utils.config: ensure_config get_config get_store patch_configurable
    langgraph.utils.runnable: RunnableCallable RunnableLike
    langgraph.version
    langgraph.cache.base: FullKey Namespace
    langgraph.cache.memory
    langgraph.cache.redis
    langgraph.cache.sqlite
    langgraph.store.base: NOT_PROVIDED NamespacePath Op Result
    langgraph.store.base.batch
    langgraph.store.base.embed
    langgraph.store.memory
    langgraph.store.sqlite
    langgraph.store.sqlite.aio
    langgraph.store.sqlite.base
    langgraph.store.postgres
    langgraph.store.postgres.aio
    langgraph.store.postgres.base
    langgraph.checkpoint.base: ChannelVersions EXCLUDED_METADATA_KEYS PendingWrite SerializerProtocol WRITES_IDX_MAP
    langgraph.checkpoint.base.id
    langgraph.checkpoint.memory
    langgraph.checkpoint.sqlite
    langgraph.checkpoint.sqlite.aio
    langgraph.checkpoint.postgres
    langgraph.checkpoint.postgres.aio
    langgraph.checkpoint.postgres.shallow
    langgraph.checkpoint.serde.base
    langgraph.checkpoint.serde.encrypted
    langgraph.checkpoint.serde.event_hooks: SerdeEventListener
    langgraph.checkpoint.serde.jsonplus
    langgraph.checkpoint.serde.types: ERROR INTERRUPT RESUME SCHEDULED TASKS
    langgraph.prebuilt
    langgraph.prebuilt.chat_agent_executor
    langgraph.prebuilt.interrupt
    langgraph.prebuilt.tool_node
    langgraph.prebuilt.tool_validator
    langchain.agents
    langchain.agents.factory
    langchain.agents.middleware
    langchain.agents.middleware.types
    langchain.agents.structured_output: ResponseFormat
"""

CALLABLES = """
    langgraph.graph:StateGraph
    langgraph.graph:StateGraph. add_node add_edge add_conditional_edges add_sequence set_entry_point
    langgraph.graph:StateGraph. set_conditional_entry_point set_finish_point set_node_defaults validate compile
    langgraph.graph.state:CompiledStateGraph. invoke ainvoke stream astream batch abatch with_config get_name
    langgraph.graph.state:CompiledStateGraph. get_state aget_state get_state_history aget_state_history
    langgraph.graph.state:CompiledStateGraph. update_state aupdate_state bulk_update_state abulk_update_state
    langgraph.graph.state:CompiledStateGraph. get_graph aget_graph get_subgraphs aget_subgraphs clear_cache aclear_cache
    langgraph.graph.state:CompiledStateGraph. get_input_schema get_output_schema get_input_jsonschema
    langgraph.graph.state:CompiledStateGraph. get_output_jsonschema get_context_jsonschema astream_events stream_events
    langgraph.graph.state:CompiledStateGraph. astream_log as_tool pipe with_retry with_fallbacks copy
    langgraph.types: Send Command Interrupt Overwrite GraphOutput StateSnapshot PregelTask StateUpdate interrupt
    langgraph.types: RetryPolicy TimeoutPolicy CachePolicy
    langgraph.channels: AnyValue BinaryOperatorAggregate EphemeralValue LastValue NamedBarrierValue Topic UntrackedValue
    langgraph.func: task entrypoint entrypoint.final
    langgraph.runtime: Runtime Runtime.merge Runtime.override ExecutionInfo get_runtime RunControl
    langgraph.runtime: RunControl.request_drain
    langgraph.config: get_config get_store get_stream_writer
    langgraph.errors: GraphInterrupt ParentCommand GraphDrained NodeError NodeCancelledError NodeTimeoutError
    langgraph.errors: UnknownInterruptError
    langgraph.checkpoint.memory: InMemorySaver
    langgraph.checkpoint.sqlite: SqliteSaver SqliteSaver.from_conn_string SqliteSaver.setup
    langgraph.checkpoint.sqlite.aio: AsyncSqliteSaver AsyncSqliteSaver.from_conn_string AsyncSqliteSaver.setup
    langgraph.checkpoint.postgres: PostgresSaver PostgresSaver.from_conn_string PostgresSaver.setup
    langgraph.checkpoint.postgres.aio: AsyncPostgresSaver AsyncPostgresSaver.from_conn_string AsyncPostgresSaver.setup
    langgraph.store.base:BaseStore. batch get put delete search list_namespaces
    langgraph.store.base:BaseStore. abatch aget aput adelete asearch alist_namespaces
    langgraph.store.base: Item SearchItem GetOp PutOp SearchOp ListNamespacesOp MatchCondition
    langgraph.store.memory: InMemoryStore
    langgraph.store.sqlite: SqliteStore SqliteStore.from_conn_string AsyncSqliteStore.from_conn_string
    langgraph.store.postgres: PostgresStore PostgresStore.from_conn_string AsyncPostgresStore.from_conn_string
    langgraph.cache.base:BaseCache. get set clear aget aset aclear
    langgraph.cache.memory: InMemoryCache
    langgraph.cache.sqlite: SqliteCache
    langgraph.graph: add_messages
    langgraph.graph.message: push_message
    langgraph.prebuilt: create_react_agent ToolNode tools_condition ToolRuntime InjectedState ValidationNode.__init__
    langgraph.prebuilt.tool_node: ToolCallRequest ToolInvocationError
    langchain.agents: create_agent
    langchain.agents.middleware:AgentMiddleware. before_agent before_model after_model after_agent wrap_model_call
    langchain.agents.middleware:AgentMiddleware. abefore_agent abefore_model aafter_model aafter_agent awrap_model_call
    langchain.agents.middleware:AgentMiddleware. wrap_tool_call awrap_tool_call
    langchain.agents.middleware: before_agent before_model after_model after_agent wrap_model_call wrap_tool_call
    langchain.agents.middleware: dynamic_prompt hook_config ModelRequest ModelResponse ExtendedModelResponse
    langchain.agents.middleware: HumanInTheLoopMiddleware SummarizationMiddleware ModelFallbackMiddleware
    langchain.agents.middleware: ModelCallLimitMiddleware ToolCallLimitMiddleware ModelRetryMiddleware
    langchain.agents.middleware: ToolRetryMiddleware
    langchain.agents.middleware.types: OmitFromSchema
    langchain.agents.structured_output: ToolStrategy ProviderStrategy AutoStrategy MultipleStructuredOutputsError
    langchain.agents.structured_output: StructuredOutputValidationError
"""


def _defined_here(module, value):
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return False
    home = value.__module__
    return home == module.__name__ or (not hasattr(module, "__all__") and home.startswith(module.__name__ + "."))


def names_of(line):
    """(module, its public names) of one line of MODULES."""
    name, _, more = line.partition(":")
    module = importlib.import_module(name.strip())
    found = {*getattr(module, "__all__", ()), *more.split()}
    found |= {key for key, value in vars(module).items() if key[0] != "_" and _defined_here(module, value)}
    for key in found:
        assert not isinstance(getattr(module, key), types.ModuleType)
    return module.__name__, sorted(found)


def parameters_of(path):
    """The names a call may use, `self` and catch-alls left out; after "*" they are keywords only."""
    module, _, names = path.partition(":")
    value = importlib.import_module(module)
    for name in names.split("."):
        value = getattr(value, name)
    listed = []
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL} or parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in listed:
            listed.append("*")
        listed.append(parameter.name)
    return listed


def callables():
    """`module:name` of each."""
    for line in CALLABLES.strip().splitlines():
        first, *names = line.split()
        yield from (first + name for name in names or [""])


def main():
    warnings.simplefilter("ignore")
    say = sys.stdout.write
    say("# LangGraph's public names and parameters, as tests/compatibility/listing.py printed them. Names only.\n")
    say("\n[versions]\n")
    for name in VERSIONS:
        say(f'{name} = "{version(name)}"\n')
    say("\n[names]\n")
    for line in MODULES.strip().splitlines():
        module, names = names_of(line)
        quoted = textwrap.fill(", ".join(f'"{name}"' for name in names), 114, break_on_hyphens=False)
        say(f'"{module}" = [\n{textwrap.indent(quoted, "    ")},\n]\n')
    say('\n# After "*" come those that are keywords only.\n[parameters]\n')
    for path in callables():
        say(f'"{path}" = [{", ".join(f"{name!r}" for name in parameters_of(path))}]\n'.replace("'", '"'))


if __name__ == "__main__":
    main()
