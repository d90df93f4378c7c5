import logging

from lattice.rq.backoff import Backoff


def test_pauses_double_up_to_a_limit_and_never_keep_step():
    backoff = Backoff(first=0.1, longest=1.0)
    pauses = [backoff.next_pause() for _ in range(8)]
    for pause, longest in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0], strict=True):
        assert longest / 2 <= pause <= longest
    assert len(set(pauses[4:])) > 1
    assert backoff.tries == 8


def test_a_success_starts_over():
    backoff = Backoff(first=0.1)
    for _ in range(5):
        backoff.next_pause()
    backoff.reset()
    assert backoff.tries == 0
    assert backoff.next_pause() <= 0.1


async def test_only_the_first_pause_is_a_warning(caplog):
    caplog.set_level(logging.DEBUG, "lattice.rq")
    backoff = Backoff(first=0.001)
    await backoff.pause("taking jobs", ConnectionError("refused"))
    await backoff.pause("taking jobs", ConnectionError("refused"))
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]
    assert "taking jobs" in caplog.messages[0] and "refused" in caplog.messages[0]
