"""Random graphs as plain data, and what their nodes and routers do, for the naive model and for the engine alike."""

from durable_graph import END, START


def random_plan(random):
    """starts, edges: targets by node. barriers: (sources, target). routers: node -> rows of targets, of which what the
    node sees picks one; a target is a node, END, or (node, how many Sends). asks: node -> what it asks.
    """
    names = ["n0", "n1", "n2", "n3"][: random.randint(2, 4)]
    targets = [*names, END, END, ("work", random.randint(1, 3))]
    asks = {}
    for name in [*names, "work"]:
        if random.random() < 0.45:
            asks[name] = [random.choice(["go?", "note?", "sure?"]) for _ in range(random.randint(1, 2))]
    return {
        "names": names,
        "starts": random.sample(names, random.randint(1, min(3, len(names)))),
        "edges": {name: random.sample([*names, END], 1) for name in names if random.random() < 0.5},
        "barriers": [(tuple(sorted(random.sample(names, 2))), random.choice(names))] if random.random() < 0.4 else [],
        "routers": {
            name: [random.sample(targets, random.randint(0, 2)) for _ in range(random.randint(1, 3))]
            for name in [START, *names]
            if random.random() < 0.5
        },
        "after_work": random.choice([*names, END]),
        "asks": asks,
        "once": [name for name in [*names, "work"] if random.random() < 0.5],
    }


def behave(plan, name, seen, ask, once):
    """What a node writes. `seen` is the state, or the number that a Send brought."""
    sent = isinstance(seen, int)
    words = [f"{name}<{seen}>" if sent else f"{name}{len(seen['log'])}"]
    if name in plan["once"]:
        words.append(once(name))
    if not sent or seen == 1:
        for question in plan["asks"].get(name, ()):
            shown = f" {seen.get('note')}" if question == "note?" and not sent else ""
            words.append(ask(f"{name}: {question}{shown}"))
    return {"log": words, "total": 1}


def route(plan, name, state):
    """Where a router leads: names, and (node, arg) for Sends."""
    rows = plan["routers"].get(name, [[]])
    for target in rows[(len(state["log"]) + state["total"]) % len(rows)]:
        if isinstance(target, tuple):
            yield from ((target[0], number) for number in range(target[1]))
        elif target != END:
            yield target


def leads(plan, name):
    """Where edges lead."""
    found = {START: plan["starts"], "work": [plan["after_work"]]}.get(name) or plan["edges"].get(name, [])
    return [target for target in found if target != END]
