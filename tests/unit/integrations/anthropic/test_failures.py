import email.utils
import time
from types import SimpleNamespace

import pytest

from lattice.integrations.anthropic.failures import retry_after_seconds, status_failure


def failure(status, body, **headers):
    response = SimpleNamespace(headers=headers)
    error = SimpleNamespace(status_code=status, body=body, response=response, request_id=None)
    return status_failure(type("Error", (Exception,), vars(error))(), url="http://u", model="m-1")


def test_an_unknown_model_is_named_with_the_address():
    error = failure(404, {"type": "error", "error": {"type": "not_found_error", "message": "model: m-1"}})
    assert "m-1" in error.message
    assert "http://u" in error.message
    assert error.code == "not_found_error"


def test_a_body_that_is_no_json_is_shown_as_it_is():
    error = failure(502, "<html>bad gateway</html>")
    assert error.message == "502 <html>bad gateway</html>"
    assert (error.code, error.retryable) == (None, True)


@pytest.mark.parametrize(("told", "expected"), [("true", True), ("false", False)])
def test_the_provider_may_say_itself_whether_to_retry(told, expected):
    assert failure(400 if expected else 500, {}, **{"x-should-retry": told}).retryable is expected


@pytest.mark.parametrize(("kind", "expected"), [("overloaded_error", True), ("invalid_request_error", False)])
def test_an_error_event_is_judged_by_its_type(kind, expected):
    error = failure(200, {"type": "error", "error": {"type": kind, "message": "x"}})
    assert (error.retryable, error.code, error.status) == (expected, kind, 200)


def test_retry_after_is_seconds_milliseconds_or_a_date():
    assert retry_after_seconds({"retry-after": "2"}) == 2
    assert retry_after_seconds({"retry-after": "2", "retry-after-ms": "150"}) == 0.15
    assert retry_after_seconds({"retry-after": "-5"}) == 0
    assert retry_after_seconds({"retry-after": "soon"}) is None
    assert retry_after_seconds({}) is None
    later = email.utils.formatdate(time.time() + 100, usegmt=True)
    assert 90 < retry_after_seconds({"retry-after": later}) <= 100
