"""A long-lived process: thousands of queries with each tracer leave no memory behind and nothing open."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from lattice import create_bare_agent, create_composite_context_tracer, create_jsonl_context_tracer, tool
from lattice.integrations.langfuse import create_langfuse_context_tracer
from lattice.integrations.langsmith import create_langsmith_context_tracer
from lattice.integrations.opentelemetry import create_opentelemetry_context_tracer
from lattice.testing import tool_use, turn
from tests.soak import leaves_nothing


class Ledger:
    """Counts what is begun and ended."""

    def __init__(self):
        self.begun = self.ended = 0

    @property
    def open(self):
        return self.begun - self.ended


class Counting(SpanProcessor):
    def __init__(self, ledger):
        self.ledger = ledger

    def on_start(self, span, parent_context=None):
        self.ledger.begun += 1

    def on_end(self, span):
        self.ledger.ended += 1


class Tree:
    """As LangSmith's RunTree: posted when it begins, patched when it ends."""

    def __init__(self, ledger, **options):
        self.ledger, self.options = ledger, options
        self.inputs, self.outputs, self.extra = {}, None, {}

    def create_child(self, **options):
        return Tree(self.ledger, **options)

    def post(self, **_options):
        self.ledger.begun += 1

    def end(self, **_options):
        pass

    def patch(self, **_options):
        self.ledger.ended += 1

    def add_event(self, _event):
        pass

    def add_metadata(self, _metadata):
        pass


class Observation:
    """As an observation of Langfuse."""

    def __init__(self, ledger):
        self.ledger = ledger
        ledger.begun += 1

    def start_observation(self, **_options):
        return Observation(self.ledger)

    def create_event(self, **_options):
        pass

    def update(self, **_options):
        return self

    def end(self, **_options):
        self.ledger.ended += 1


def opentelemetry(ledger, _folder):
    provider = TracerProvider()
    provider.add_span_processor(Counting(ledger))
    meters = MeterProvider([InMemoryMetricReader()])
    return create_opentelemetry_context_tracer(tracer_provider=provider, meter_provider=meters)


def langsmith(ledger, _folder):
    return create_langsmith_context_tracer(run_tree=lambda config: Tree(ledger, **config))


def langfuse(ledger, _folder):
    return create_langfuse_context_tracer(start_observation=lambda *_names, **_options: Observation(ledger))


def jsonl(_ledger, folder):
    return create_jsonl_context_tracer(path=folder / "trace.jsonl")


def all_together(ledger, folder):
    return create_composite_context_tracer(make(ledger, folder) for make in (opentelemetry, langsmith, langfuse, jsonl))


@tool("add", "Adds.", {"type": "object"})
async def add(_numbers):
    return "3"


class Model:
    """A model without a memory: it calls the tool, and ends; each tenth time it fails."""

    calls = 0

    async def create_message(self, request):
        self.calls += 1
        if self.calls % 10 == 0:
            raise RuntimeError("the model broke")
        asked = isinstance(request.messages[-1]["content"], str)
        return turn("Let me add.", tool_use("add", {"a": 1})) if asked else turn("3")


async def test_the_check_can_fail():
    kept = []

    async def leak():
        kept.append([object() for _ in range(10)])

    with pytest.raises(AssertionError, match="blocks more"):
        await leaves_nothing(leak)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [opentelemetry, langsmith, langfuse, jsonl, all_together])
async def test_queries_leave_nothing_behind(make, tmp_path):
    ledger, model = Ledger(), Model()
    tracer = make(ledger, tmp_path)
    flush = getattr(tracer, "flush", None)

    async def query():
        agent = create_bare_agent(model="m", name="ada", model_client=model, tools=[add], tracer=tracer)
        await agent.prompt("1 + 2?", stream=False)

    await leaves_nothing(query, flush)
    await tracer.close()
    assert ledger.open == 0
    assert ledger.begun > 0 or make is jsonl
