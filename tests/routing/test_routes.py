"""From task and model to pool and section: order of choice, spill-over, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Config
from gateway.errors import InvalidRequest, NotFound, NoWorker
from gateway.routing.health import Sign
from gateway.routing.request import Task
from gateway.routing.routes import RouteTable, choose
from tests.routing.builders import section, table, take, ticket, trip

T2I, I2I = Task.T2I, Task.I2I


def down(pool):
    """Lets every worker of a pool lose an attempt."""
    for worker in pool.workers:
        worker.health.see(Sign.LOST_ATTEMPT)


def chosen(routes, task):
    """Returns the pool that a request of a task goes to."""
    return choose(routes.choices(task), task, 0.0)


def pool_of(routes, name):
    """Finds a pool by its name."""
    return next(pool for pool in routes.pools if pool.name == name)


def test_a_table_is_built_from_the_configuration():
    """Pools and workers are those of the file, named and unproven."""
    sections = {"t2i": section("t2i", workers=2), "i2i": section("i2i")}
    sections["i2i"]["workers"] = [{"url": "http://x.test/", "capacity": 3, "name": "big"}]
    routes = RouteTable.build(Config.model_validate({"pools": sections}))
    assert [("t2i", ["t2i-0", "t2i-1"]), ("i2i", ["big"])] == [
        (pool.name, [worker.name for worker in pool.workers]) for pool in routes.pools
    ]
    assert ("http://x.test", 3) == (
        routes.pools[1].workers[0].url,
        routes.pools[1].workers[0].capacity,
    )
    assert not any(worker.health.is_up for pool in routes.pools for worker in pool.workers)


@pytest.mark.parametrize(
    ("pools", "task", "expected"),
    [
        ({"text": ("t2i",), "both": ("i2i", "t2i")}, T2I, "text"),
        ({"text": ("t2i",), "both": ("i2i", "t2i")}, I2I, "both"),
        ({"both": ("i2i", "t2i"), "text": ("t2i",)}, T2I, "text"),
        ({"one": ("t2i", "i2i"), "two": ("i2i", "t2i")}, I2I, "two"),
        ({"one": ("t2i", "i2i"), "two": ("i2i", "t2i")}, T2I, "one"),
        ({"one": ("i2i",), "two": ("i2i",)}, I2I, "one"),
    ],
)
def test_the_first_choice_is_the_pool_that_lists_the_task_first(pools, task, expected):
    """A task goes to the pool that lists it first; among equals the file's order decides."""
    sections = {name: section(*tasks, workers=0) for name, tasks in pools.items()}
    for name, each in sections.items():
        each["workers"] = [{"url": f"http://{name}.test"}]
    assert expected == chosen(table(**sections), task).name


def test_text_spills_over_where_both_are_listed():
    """T2I goes to a pool that lists it second when its own cannot serve (R4)."""
    routes = table(text=section("t2i"), both=section("i2i", "t2i"))
    down(pool_of(routes, "text"))
    assert "both" == chosen(routes, T2I).name


def test_text_does_not_spill_over_where_it_is_not_listed():
    """T2I never goes to a pool that does not list it (R4)."""
    routes = table(text=section("t2i"), pictures=section("i2i"))
    down(pool_of(routes, "text"))
    with pytest.raises(NoWorker, match="t2i cannot be served now: no worker of pool 'text' is up"):
        chosen(routes, T2I)


def test_a_busy_pool_keeps_its_requests():
    """A full pool is still the choice: a wait is no reason to spill over."""
    routes = table(text=section("t2i"), both=section("i2i", "t2i"))
    assert take(pool_of(routes, "text"), ticket(T2I)) is not None
    assert "text" == chosen(routes, T2I).name


@pytest.mark.parametrize(
    ("sections", "ills", "reason"),
    [
        ({"pictures": section("i2i", workers=0)}, (), "pool 'pictures' has no workers"),
        ({"pictures": section("i2i")}, ("pictures",), "no worker of pool 'pictures' is up"),
    ],
)
def test_a_task_that_nobody_can_serve_says_why(sections, ills, reason):
    """No worker for a task is a 503 with the reason and a time to try again (R6)."""
    routes = table(**sections)
    for name in ills:
        down(pool_of(routes, name))
    with pytest.raises(NoWorker) as caught:
        chosen(routes, I2I)
    assert f"i2i cannot be served now: {reason}; try again later" == caught.value.message
    assert (503, 5.0) == (caught.value.status, caught.value.retry_after)


@pytest.mark.parametrize("sections", [{}, {"text": section("t2i")}])
def test_a_task_without_a_pool_says_so(sections):
    """A task that no pool lists is a 503, and nobody is told that waiting helps (R6)."""
    with pytest.raises(NoWorker) as caught:
        table(**sections).choices(I2I)
    assert "no pool of this gateway serves i2i" == caught.value.message
    assert (503, 5.0) == (caught.value.status, caught.value.retry_after)


def test_the_reason_is_that_of_the_first_choice():
    """When all pools of a task fail, the first choice says why."""
    routes = table(
        text=section("t2i", encoder_url="http://encoder.test"), both=section("i2i", "t2i")
    )
    pool_of(routes, "text").encoder.see(Sign.LOST_ATTEMPT)
    down(pool_of(routes, "both"))
    with pytest.raises(NoWorker, match="the encoder of pool 'text' does not answer"):
        chosen(routes, T2I)


def test_a_worker_that_refused_is_left_out():
    """Where every worker of the first choice refused, the next one is asked."""
    routes = table(text=section("t2i"), both=section("i2i", "t2i"))
    text, both = pool_of(routes, "text"), pool_of(routes, "both")
    refused = [*text.workers]
    assert both is choose(routes.choices(T2I), T2I, 0.0, refused)
    with pytest.raises(NoWorker, match="every worker of pool 'text' was asked and refused"):
        choose(routes.choices(T2I), T2I, 0.0, [*refused, *both.workers])


def test_a_rest_that_is_over_does_not_hide_a_pool():
    """A choice first lets time pass, and tells of a rest how long it still is."""
    routes = table(text=section("t2i"))
    text = pool_of(routes, "text")
    trip(text, text.workers[0], 10.0)
    with pytest.raises(NoWorker) as caught:
        choose(routes.choices(T2I), T2I, 12.0)
    assert 3.0 == caught.value.retry_after
    assert text is choose(routes.choices(T2I), T2I, 15.0)


TASK_LISTS = st.sampled_from([("t2i",), ("i2i",), ("t2i", "i2i"), ("i2i", "t2i")])
SIGNS = st.lists(st.sampled_from(Sign), max_size=3)
REPORTS = st.sampled_from([None, frozenset(), frozenset(Task), frozenset({T2I}), frozenset({I2I})])


@settings(deadline=None)
@given(st.lists(TASK_LISTS, max_size=4), st.data())
def test_a_picture_never_leads_to_a_pool_without_i2i(task_lists, data):
    """Whatever the health and the load, I2I leads to a pool that lists it and can, or nowhere."""
    sections = {
        f"p{at}": {
            "tasks": tasks,
            "workers": [
                {"url": f"http://p{at}-{n}.test"} for n in range(data.draw(st.integers(0, 3)))
            ],
        }
        for at, tasks in enumerate(task_lists)
    }
    routes = RouteTable.build(Config.model_validate({"pools": sections}))
    for worker in (worker for pool in routes.pools for worker in pool.workers):
        worker.capability.report(data.draw(REPORTS))
        for sign in data.draw(SIGNS):
            worker.health.see(sign)
        worker.is_drained = data.draw(st.booleans())
    can = [p for p in routes.pools if I2I in p.tasks and any(w.is_fit(I2I) for w in p.workers)]
    try:
        found = chosen(routes, I2I)
    except NoWorker:
        assert [] == can
    else:
        assert found in can
        for _ in range(2):
            lease = take(found, ticket(I2I))
            assert lease is None or lease.worker.is_fit(I2I)


MODELS = {"glm-image": {"aliases": ["zai-org/GLM-Image", "default"]}, "other": {"step": 16}}


@pytest.mark.parametrize(
    ("name", "step"),
    [("glm-image", 32), ("zai-org/GLM-Image", 32), ("default", 32), ("other", 16)],
)
def test_a_model_is_found_by_name_and_alias(name, step):
    """A model answers to its name and to every alias."""
    routes = RouteTable.build(Config.model_validate({"models": MODELS}))
    assert (name, step) == (routes.model(name)[0], routes.model(name)[1].step)


def test_the_only_model_needs_no_name():
    """Without a name the only model is meant, also the implicit one."""
    routes = RouteTable.build(Config())
    models = [routes.model(name)[1] for name in (None, "glm-image", "zai-org/GLM-Image")]
    assert models[0] is models[1] is models[2]
    assert "glm-image" == routes.model(None)[0]


def test_among_several_models_one_has_to_be_named():
    """Without a name several models are a 400 that lists them."""
    with pytest.raises(InvalidRequest, match="glm-image, other") as caught:
        RouteTable.build(Config.model_validate({"models": MODELS})).model(None)
    assert ("model_required", "model") == (caught.value.code, caught.value.param)


@pytest.mark.parametrize("name", ["dall-e-3", "GLM-IMAGE", "glm-image ", ""])
def test_an_unknown_model_is_not_found(name):
    """A model that does not exist is a 404 that lists those that do."""
    with pytest.raises(NotFound, match="known: glm-image") as caught:
        RouteTable.build(Config()).model(name)
    assert (404, "model_not_found", "model") == (
        caught.value.status,
        caught.value.code,
        caught.value.param,
    )
