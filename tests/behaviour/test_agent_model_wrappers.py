"""`wrap_model_call` and `dynamic_prompt`: what may stand around a call of the model."""

from dataclasses import replace

import pytest

from durable_graph import END, Command
from durable_graph.agents import AgentState, create_agent
from durable_graph.agents.middleware import (
    ExtendedModelResponse,
    ModelResponse,
    after_model,
    before_agent,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from durable_graph.errors import InvalidConfigError, InvalidUpdateError, InvalidValueError
from durable_graph.messages import AIMessage, HumanMessage, SystemMessage
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import tool
from tests.behaviour.agent_parts import asks, scripted
from tests.behaviour.agents import LOOKS, AsyncModel, SyncModel, is_whole, look, run, texts, told
from tests.behaviour.small_graphs import thread


def overriding(**changes):
    """Middleware that changes the request."""
    return wrap_model_call(lambda request, handler: handler(request.override(**changes)), name="overriding")


def around(wrap, **options):
    return wrap_model_call(wrap, name=options.pop("name", "around"), **options)


# --- around the model: what it gives back ----------------------------------------------------------------------------


def test_it_may_try_again(face):
    def retry(request, handler):
        try:
            return handler(request)
        except OSError:
            return handler(request)

    model = ScriptedChatModel([OSError("busy"), "done"])
    assert texts(run(face, create_agent(model, middleware=[around(retry)]))) == ["go", "done"]


@pytest.mark.parametrize("wrapped", [lambda message: message, lambda message: ModelResponse([message])], ids=["", "in"])
def test_it_may_answer_itself_and_its_message_is_like_one_of_the_models(face, wrapped):
    calls = [{"name": "look", "args": {"at": "a"}, "id": None}]

    def answer(request, handler):
        return wrapped(AIMessage("", tool_calls=calls)) if len(request.messages) == 1 else handler(request)

    found = run(face, create_agent(scripted("never", "done"), [look], middleware=[around(answer)], name="bob"))
    assert texts(found) == ["go", "", "saw a", "done"]
    assert [one.name for one in found["messages"]] == [None, "bob", "look", "bob"]
    assert is_whole(found["messages"])


def test_it_may_change_the_answer(face):
    def louder(request, handler):
        return ModelResponse([one.model_copy(update={"content": "DONE"}) for one in handler(request).result])

    assert texts(run(face, create_agent(scripted("done"), middleware=[around(louder)]))) == ["go", "DONE"]


@pytest.mark.parametrize(
    "answer", ["text", None, HumanMessage("x"), ModelResponse("x"), ModelResponse(AIMessage("x"))], ids=repr
)
def test_what_is_no_answer_is_refused(face, answer):
    with pytest.raises(InvalidUpdateError, match="a wrap_model_call returned"):
        run(face, create_agent(scripted("done"), middleware=[around(lambda request, handler: answer)]))


# --- around the model: Commands --------------------------------------------------------------------------------------


class Tried(AgentState):
    tried: int


def counted(**options):
    """Middleware that says with each response how often it was tried."""
    tries = []

    def count(request, handler):
        tries.append(1)
        return ExtendedModelResponse(handler(request), Command(update={"tried": len(tries)}))

    return around(count, state_schema=Tried, name="counted", **options)


def test_a_command_beside_the_answer_updates_the_state(face, backend):
    agent = create_agent(scripted("done"), middleware=[counted()], checkpointer=backend.make())
    found = run(face, agent, thread())
    assert (found["tried"], texts(found)) == (1, ["go", "done"])
    inner = around(lambda request, handler: ExtendedModelResponse(handler(request)))
    assert texts(run(face, create_agent(scripted("done"), middleware=[inner]))) == ["go", "done"]


def first(request, handler):
    kept = handler(request)
    handler(request)
    return kept


def first_changed(request, handler):
    kept = handler(request)
    handler(request)
    return replace(kept, result=[AIMessage("changed")])


def last(request, handler):
    handler(request)
    return handler(request)


def own(request, handler):
    handler(request)
    return AIMessage("own")


def own_after_failure(request, handler):
    handler(request)
    try:
        return handler(request)
    except OSError:
        return AIMessage("own")


@pytest.mark.parametrize(
    ("wrap", "answers", "said", "tried"),
    [
        (first, ["one", "two"], "one", 1),
        (first_changed, ["one", "two"], "changed", 1),
        (last, ["one", "two"], "two", 2),
        (own, ["one"], "own", 1),
        (own_after_failure, ["one", OSError()], "own", None),
    ],
)
def test_commands_of_a_discarded_attempt_are_dropped(face, wrap, answers, said, tried):
    agent = create_agent(ScriptedChatModel(answers), middleware=[around(wrap), counted()])
    found = run(face, agent)
    assert (texts(found)[-1], found.get("tried")) == (said, tried)


@pytest.mark.parametrize(
    "command",
    [Command(goto=END), Command(resume=None), Command(graph=Command.PARENT, update={})],
    ids=["goto", "resume", "graph"],
)
def test_a_command_that_does_more_is_refused_and_the_error_names_jump_to(face, command):
    more = around(lambda request, handler: ExtendedModelResponse(handler(request), command))
    with pytest.raises(InvalidUpdateError, match="may only update the state") as raised:
        run(face, create_agent(scripted("done"), middleware=[more]))
    assert "jump_to" in str(raised.value)


def test_it_may_jump_past_the_hooks_behind_the_model(face):
    log = []
    stop = around(lambda request, handler: ExtendedModelResponse(handler(request), Command(update={"jump_to": "end"})))
    behind = [after_model(lambda state, runtime: log.append(state["jump_to"]), name=name) for name in "ab"]
    agent = create_agent(scripted(LOOKS, "done"), [look], middleware=[stop, *behind])
    assert texts(run(face, agent)) == ["go", ""]
    assert log == ["end", "end"]


def test_it_may_jump_also_where_a_jump_led_to_the_model(face):
    there = before_agent(lambda state, runtime: {"jump_to": "model"}, can_jump_to=["model"], name="there")
    stop = around(lambda request, handler: ExtendedModelResponse(handler(request), Command(update={"jump_to": "end"})))
    assert texts(run(face, create_agent(scripted(LOOKS), [look], middleware=[there, stop]))) == ["go", ""]


def test_it_cannot_jump_to_a_place_that_is_none(face):
    lost = around(lambda request, handler: ExtendedModelResponse(handler(request), Command(update={"jump_to": "x"})))
    with pytest.raises(InvalidUpdateError, match="jumps to 'x'"):
        run(face, create_agent(scripted("done"), middleware=[lost]))


# --- around the model: the request -----------------------------------------------------------------------------------


def test_the_request_tells_all_and_cannot_be_changed_in_place(face):
    def spy(request, handler):
        seen.append(request)
        return handler(request)

    seen, model = [], scripted("done")
    run(face, create_agent(model, [look], system_prompt="be brief", middleware=[around(spy)]))
    (request,) = seen
    assert (request.model, request.system_prompt, request.response_format) == (model, "be brief", None)
    assert [one.name for one in request.tools] == ["look"]
    assert [one.content for one in request.messages] == [one.content for one in request.state["messages"]] == ["go"]
    with pytest.raises(AttributeError):
        request.model = None
    with pytest.raises(InvalidConfigError, match="both a system_prompt and a system_message"):
        request.override(system_prompt="a", system_message=SystemMessage("b"))
    with pytest.raises(TypeError):
        request.override(prompt="a")


def test_it_may_change_what_the_model_is_told_and_not_what_is_stored(face):
    model = scripted("done")
    changes = {"messages": [HumanMessage("less")], "system_prompt": "other", "model_settings": {"temperature": 0}}
    found = run(face, create_agent(model, [look], system_prompt="one", middleware=[overriding(**changes)]))
    assert told(model) == ["other", "less"]
    assert model.calls[0].options == {"temperature": 0}
    assert texts(found) == ["go", "done"]


def test_it_may_change_the_model_also_for_one_of_another_shape(face):
    for other, said in ((SyncModel(), "tools: []"), (AsyncModel(), "waited for"), (scripted("other"), "other")):
        assert texts(run(face, create_agent(scripted("done"), middleware=[overriding(model=other)]))) == ["go", said]
    with pytest.raises(InvalidConfigError, match="no chat model"):
        run(face, create_agent(scripted("done"), middleware=[overriding(model=3)]))


def test_it_may_offer_fewer_tools_and_choose_among_them(face):
    assert texts(run(face, create_agent(SyncModel(), [look], middleware=[overriding(tools=[])])))[-1] == "tools: []"
    model = scripted("done")
    chosen = overriding(tools=[tool(look), {"type": "web_search"}], tool_choice="look")
    run(face, create_agent(model, [look, tool("other", look)], middleware=[chosen]))
    assert [getattr(one, "name", one) for one in model.calls[0].tools] == ["look", {"type": "web_search"}]
    assert model.calls[0].options == {"tool_choice": "look"}


def test_a_choice_reaches_a_model_that_came_with_its_tools(face):
    class Bound(SyncModel):
        kwargs = {"tools": [tool(look)]}  # noqa: RUF012 - a class that nobody changes

        def bind_tools(self, tools, **options):
            return SyncModel(lambda model, history: AIMessage(str(options)))

    agent = create_agent(Bound(), [look], middleware=[overriding(tool_choice="look")])
    assert texts(run(face, agent))[-1] == "{'tool_choice': 'look'}"


def test_a_tool_that_nobody_runs_cannot_be_offered_unless_a_wrapper_might(face):
    extra = overriding(tools=[tool("extra", look)])
    for tools in ([look], []):
        with pytest.raises(InvalidConfigError, match="'extra', which the agent does not have"):
            run(face, create_agent(scripted("done"), tools, middleware=[extra]))

    def bring(request, execute):
        return execute(request.override(tool=tool("extra", look)))

    for tools in ([look], []):
        model = scripted(asks(("extra", "1", {"at": "a"})), "done")
        agent = create_agent(model, tools, middleware=[extra, wrap_tool_call(bring)])
        assert texts(run(face, agent)) == ["go", "", "saw a", "done"]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_dynamic_prompt_is_made_for_each_call(face, form):
    def prompt(request):
        return f"{len(request.messages)} messages, not {request.system_prompt}"

    async def aprompt(request):
        return SystemMessage(prompt(request))

    model = scripted(LOOKS, "done")
    middleware = [dynamic_prompt(aprompt if form == "async" else prompt)]
    found = run(face, create_agent(model, [look], system_prompt="fixed", middleware=middleware))
    assert [told(model, number)[0] for number in (0, 1)] == ["1 messages, not fixed", "3 messages, not fixed"]
    assert texts(found) == ["go", "", "saw a", "done"]
    assert dynamic_prompt(name="named")(prompt).name == "named"


def test_a_model_that_says_no_ai_message_fails_inside_the_wrapper(face):
    def mend(request, handler):
        try:
            return handler(request)
        except InvalidValueError:
            return AIMessage("mended")

    agent = create_agent(SyncModel(lambda model, history: "text"), middleware=[around(mend)])
    assert texts(run(face, agent)) == ["go", "mended"]
