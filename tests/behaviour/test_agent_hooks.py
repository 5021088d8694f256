"""Hooks of middleware that are nodes: when they run, where they may jump, and what they add to the state."""

import operator
from typing import Annotated, NotRequired

import pytest

from durable_graph import END, Command, interrupt
from durable_graph.agents import AgentState, create_agent
from durable_graph.agents.middleware import (
    AgentMiddleware,
    OmitFromInput,
    OmitFromOutput,
    PrivateStateAttr,
    after_agent,
    after_model,
    before_agent,
    before_model,
    hook_config,
)
from durable_graph.errors import InvalidConfigError, InvalidGraphError, InvalidInputError, InvalidUpdateError
from durable_graph.prebuilt import ToolRuntime, tool
from durable_graph.stores import InMemoryStore
from tests.behaviour.agent_parts import asks, scripted
from tests.behaviour.agents import FORMS, LOOKS, asynchronous, edges, look, run, texts
from tests.behaviour.small_graphs import thread

KINDS = {
    "before_agent": before_agent,
    "before_model": before_model,
    "after_model": after_model,
    "after_agent": after_agent,
}


@pytest.fixture(params=FORMS)
def form(request):
    """Makes a hook of a sync function: as it is, or async."""
    return FORMS[request.param]


class Noting(AgentMiddleware):
    """Notes each of its hooks in a log that several may share."""

    def __init__(self, name, log):
        self.called, self.log = name, log

    @property
    def name(self):
        return self.called

    def before_agent(self, state, runtime):
        self.log.append(f"{self.called} before agent")

    def before_model(self, state, runtime):
        self.log.append(f"{self.called} before model")

    def after_model(self, state, runtime):
        self.log.append(f"{self.called} after model")

    def after_agent(self, state, runtime):
        self.log.append(f"{self.called} after agent")


class AsyncNoting(Noting):
    """The same, and async; it brings both forms, of which each face takes its own."""

    async def abefore_agent(self, state, runtime):
        self.log.append(f"{self.called} before agent, async")


# --- when they run ---------------------------------------------------------------------------------------------------


def test_before_in_order_and_after_in_reverse_the_agents_once_the_models_each_turn(face, backend):
    log = []
    middleware = [Noting("A", log), Noting("B", log)]
    agent = create_agent(scripted(LOOKS, "done"), [look], middleware=middleware, checkpointer=backend.make())
    run(face, agent, thread())
    turn = ["A before model", "B before model", "B after model", "A after model"]
    whole = ["A before agent", "B before agent", *turn, *turn, "B after agent", "A after agent"]
    assert log == whole
    nodes = agent.get_graph().nodes
    assert {"A.before_agent", "B.before_model", "A.after_model", "B.after_agent"} <= set(nodes)


def test_the_agents_hooks_run_once_in_a_run_that_stops_and_goes_on(face, backend):
    log = []

    def ask(at: str) -> str:
        """Ask."""
        return interrupt("where?")

    model = scripted(asks(("ask", "1", {"at": "a"})), "done", "again")
    agent = create_agent(model, [ask], middleware=[Noting("A", log)], checkpointer=backend.make())
    run(face, agent, thread())
    face.invoke(agent, Command(resume="there"), thread())
    assert [log.count(f"A {when} agent") for when in ("before", "after")] == [1, 1]
    run(face, agent, thread())
    assert [log.count(f"A {when} agent") for when in ("before", "after")] == [2, 2]


def test_each_face_takes_its_own_form_and_either_form_serves_both(face, form):
    log = []
    both = AsyncNoting("A", log)
    single = before_agent(form(lambda state, runtime: log.append("single")), name="single")
    run(face, create_agent(scripted("done"), middleware=[both, single]))
    assert log[:2] == [f"A before agent{', async' if face.name == 'async' else ''}", "single"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "update", [{"messages": ["said"]}, Command(update={"messages": ["said"]})], ids=["dict", "Command"]
)
def test_what_they_return_updates_the_state(face, form, kind, update):
    hook = KINDS[kind](form(lambda state, runtime: update), name="hook")
    found = texts(run(face, create_agent(scripted("done"), middleware=[hook])))
    assert found == (["go", "said", "done"] if kind.startswith("before") else ["go", "done", "said"])


def test_they_get_state_context_and_store_and_so_do_tools(face, form):
    def spy(state, runtime):
        seen.append((len(state["messages"]), runtime.context["user"], runtime.store.get(("a",), "key").value["x"]))

    def save(at: str, runtime: ToolRuntime) -> str:
        """Save."""
        return f"{runtime.context['user']} {runtime.store.get(('a',), 'key').value['x']} {runtime.state['extra']}"

    class State(AgentState):
        extra: str

    seen, store = [], InMemoryStore()
    store.put(("a",), "key", {"x": 7})
    middleware = [KINDS[kind](form(spy), name=kind) for kind in KINDS]
    model = scripted(asks(("save", "1", {"at": "a"})), "done")
    agent = create_agent(
        model, [save], middleware=middleware, store=store, state_schema=State, context_schema=dict[str, str]
    )
    found = face.invoke(agent, {"messages": "go", "extra": "more"}, context={"user": "ann"})
    assert found["messages"][2].content == "ann 7 more"
    assert seen == [(count, "ann", 7) for count in (1, 1, 2, 3, 4, 4)]


def test_a_hook_may_ask_a_human(face, backend, form):
    def ask(state, runtime):
        return {"messages": [interrupt("what else?")]}

    agent = create_agent(scripted("done"), middleware=[before_model(form(ask))], checkpointer=backend.make())
    assert run(face, agent, thread())["__interrupt__"][0].value == "what else?"
    assert texts(face.invoke(agent, Command(resume="this"), thread())) == ["go", "this", "done"]


# --- jumps -----------------------------------------------------------------------------------------------------------


def jumping(kind, *places, form=lambda function: function, name="jump"):
    """Middleware whose hook jumps to these places, one each time it runs, then nowhere."""
    left = list(places)
    return KINDS[kind](
        form(lambda state, runtime: {"jump_to": left.pop(0)} if left else None), can_jump_to=set(places), name=name
    )


@pytest.mark.parametrize("kind", KINDS)
def test_jump_to_end_leads_past_all_but_the_hooks_behind_the_agent(face, backend, form, kind):
    log = []
    middleware = [jumping(kind, "end", form=form), after_agent(lambda state, runtime: log.append("over"), name="last")]
    model = scripted("done" if kind == "after_agent" else LOOKS)
    agent = create_agent(model, [look], middleware=middleware, checkpointer=backend.make())
    found = run(face, agent, thread())
    assert texts(found) == {"after_model": ["go", ""], "after_agent": ["go", "done"]}.get(kind, ["go"])
    assert set(found) == {"messages"}
    assert log == ["over"]


@pytest.mark.parametrize("kind", ["before_agent", "after_model", "after_agent"])
def test_jump_to_model_leads_to_the_hooks_before_it_and_asks_once_more_only(face, form, kind):
    log = []
    middleware = [
        jumping(kind, "model", form=form),
        before_model(lambda state, runtime: log.append("turn"), can_jump_to=["end"], name="before"),
    ]
    found = texts(run(face, create_agent(scripted("one", "two"), middleware=middleware)))
    assert found == (["go", "one"] if kind == "before_agent" else ["go", "one", "two"])
    assert len(log) == len(found) - 1


def test_jump_to_tools_leads_to_each_pending_call(face, backend, form):
    saver = backend.make()
    plain = create_agent(
        scripted(asks(("look", "1", {"at": "a"}), ("look", "2", {"at": "b"}))), [look], checkpointer=saver
    )
    run(face, plain, thread(), interrupt_before=["tools"])
    jump = jumping("before_model", "tools", form=form)
    agent = create_agent(scripted("", "done"), [look], middleware=[jump], checkpointer=saver)
    found = face.invoke(agent, {"messages": "again"}, thread(), on_unfinished="abandon")
    assert texts(found) == ["go", "", "saw a", "saw b", "again", "done"]


@pytest.mark.parametrize("tools", [[look], []], ids=["tools", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_jump_to_tools_with_nothing_to_run_goes_the_usual_way(face, kind, tools):
    agent = create_agent(scripted("done"), tools, middleware=[jumping(kind, "tools"), after_model_nothing])
    assert texts(run(face, agent)) == ["go", "done"]


@after_model
def after_model_nothing(state, runtime):
    """So that the jump of another hook behind the model comes in the middle."""


@pytest.mark.parametrize(
    ("jump", "behind", "seen"),
    [
        (("before_agent", "model"), "before_model", ["model", None]),
        (("before_agent", "model"), "after_model", [None, None]),
        (("before_model", "end"), "after_agent", ["end", None]),
    ],
    ids=["model", "past the model", "end"],
)
def test_a_jump_lives_one_step(face, jump, behind, seen):
    """What it leads to may jump too, and does not take it for a jump of its own."""
    found = []

    def spy(state, runtime):
        found.append(state.get("jump_to"))

    spies = [KINDS[behind](spy, can_jump_to=["model", "end"], name=name) for name in "ab"]
    run(face, create_agent(scripted("done"), middleware=[jumping(*jump), *spies]))
    assert found == seen


def test_a_jump_is_private(face, backend):
    agent = create_agent(scripted(), middleware=[jumping("before_model", "end")], checkpointer=backend.make())
    with pytest.raises(InvalidInputError, match="jump_to"):
        face.invoke(agent, {"messages": "go", "jump_to": "end"}, thread())
    assert set(run(face, agent, thread())) == {"messages"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "update",
    [
        {"jump_to": "end"},
        Command(update={"jump_to": "end"}),
        Command(update=[("jump_to", "end")]),
        [Command(update={"jump_to": "end"})],
    ],
    ids=["dict", "Command", "pairs", "list"],
)
def test_an_undeclared_jump_is_an_error_that_says_how_to_declare_it(face, form, kind, update):
    hook = KINDS[kind](form(lambda state, runtime: update), can_jump_to=["model"], name="jump")
    with pytest.raises(InvalidUpdateError, match=rf"'jump.{kind}' jumps to 'end', which it does not declare") as raised:
        run(face, create_agent(scripted("done"), middleware=[hook]))
    assert 'hook_config(can_jump_to=["end"])' in str(raised.value)


def test_a_command_with_goto_is_an_error_that_names_jump_to(face, form):
    hook = before_model(form(lambda state, runtime: Command(goto=END)))
    with pytest.raises(InvalidUpdateError, match="goto") as raised:
        run(face, create_agent(scripted("done"), middleware=[hook]))
    assert "jump_to" in str(raised.value)


@pytest.mark.parametrize("places", ["end", ["nowhere"]], ids=["str", "unknown"])
def test_hook_config_knows_the_places(places):
    with pytest.raises(InvalidConfigError, match="can_jump_to"):
        hook_config(can_jump_to=places)
    with pytest.raises(InvalidConfigError, match="can_jump_to"):
        before_model(lambda state, runtime: None, can_jump_to=places)


def test_edges_are_there_only_when_declared():
    class Declared(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state, runtime):
            """Declares."""

        async def aafter_model(self, state, runtime):
            """Declares nothing."""

        @hook_config(can_jump_to=["model"])
        async def aafter_agent(self, state, runtime):
            """Declares."""

    before, after, last = (f"Declared.{hook}" for hook in ("before_model", "after_model", "after_agent"))
    usual = {("__start__", before), (before, "model"), ("model", after), (after, "tools"), ("tools", before)}
    usual |= {(after, before), (after, last), (last, "__end__")}
    assert edges(create_agent(scripted(), [look], middleware=[Declared()])) == usual | {(before, last), (last, before)}


# --- state schemas and tools -----------------------------------------------------------------------------------------


class Counted(AgentState):
    log: Annotated[list, operator.add]
    given: Annotated[NotRequired[int], OmitFromOutput]
    made: Annotated[NotRequired[int], OmitFromInput]
    own: NotRequired[Annotated[int, PrivateStateAttr]]


def count(state, runtime):
    return {"log": ["m"], "made": state.get("given", 0) + 1, "own": state.get("own", 0) + 1}


def test_middleware_brings_keys_with_reducers_some_of_them_hidden(face, backend):
    counting = before_model(count, state_schema=Counted)
    agent = create_agent(scripted(LOOKS, "done"), [look], middleware=[counting], checkpointer=backend.make())
    found = face.invoke(agent, {"messages": "go", "log": ["in"], "given": 4}, thread())
    assert {key: found[key] for key in found if key != "messages"} == {"log": ["in", "m", "m"], "made": 5}
    assert face.get_state(agent, thread()).values["own"] == 2
    for hidden in ("made", "own", "structured_response", "unheard"):
        with pytest.raises(InvalidInputError, match=hidden):
            face.invoke(agent, {"messages": "go", hidden: 1}, thread("u"))


def test_of_two_schemas_with_one_key_the_users_counts(face):
    class Users(AgentState):
        log: Annotated[list, lambda old, new: new + old]

    counting = before_model(count, state_schema=Counted)
    agent = create_agent(scripted("done"), middleware=[counting], state_schema=Users)
    assert face.invoke(agent, {"messages": "go", "log": ["in"]})["log"] == ["m", "in"]


def test_middleware_brings_tools(face):
    class Brings(AgentMiddleware):
        tools = [tool(look)]  # noqa: RUF012 - a class that nobody changes

    assert texts(run(face, create_agent(scripted(LOOKS, "done"), middleware=[Brings()]))) == ["go", "", "saw a", "done"]
    by_decorator = before_model(lambda state, runtime: None, tools=[look], name="brings")
    assert texts(run(face, create_agent(scripted(LOOKS, "done"), middleware=[by_decorator])))[2] == "saw a"


def test_two_of_one_name_are_refused():
    def hook(state, runtime):
        return None

    with pytest.raises(InvalidGraphError, match="two middlewares have the name 'hook'"):
        create_agent(scripted(), middleware=[before_model(hook), after_model(hook)])
    create_agent(scripted(), middleware=[before_model(hook), after_model(hook, name="other")])


def test_decorators_keep_the_functions_name_and_words():
    @before_model
    def remind(state, runtime):
        """Say it again."""

    assert (remind.name, remind.__doc__) == ("remind", "Say it again.")
    assert before_model(asynchronous(lambda state, runtime: None), name="given").name == "given"
