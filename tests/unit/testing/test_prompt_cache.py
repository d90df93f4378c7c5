from lattice.testing.prompt_cache import PromptCache

MARK = {"cache_control": {"type": "ephemeral"}}


def text(words, *, marked=False):
    return {"type": "text", "text": words * 40, **(MARK if marked else {})}


def body(*blocks, system="You are."):
    return {"model": "m", "system": system, "messages": [{"role": "user", "content": list(blocks)}]}


def test_without_marks_nothing_is_read_or_written():
    cache = PromptCache()
    usages = [cache.count(body(text("a"))) for _ in range(2)]
    assert usages[0] == usages[1] == {"input_tokens": usages[0]["input_tokens"]}
    assert (cache.read, cache.created, cache.uncached_share) == (0, 0, 1.0)
    assert cache.resent_uncached_share == 1.0


def test_a_marked_prefix_is_written_once_and_read_by_who_marks_it_or_goes_on_from_it():
    cache = PromptCache()
    first = cache.count(body(text("a", marked=True)))
    again = cache.count(body(text("a", marked=True)))
    longer = cache.count(body(text("a"), text("b", marked=True), text("c")))
    written = first["cache_creation_input_tokens"]
    assert first == {"input_tokens": 0, "cache_creation_input_tokens": written, "cache_read_input_tokens": 0}
    assert again == {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": written}
    assert longer["cache_read_input_tokens"] == written
    assert longer["cache_creation_input_tokens"] > 0
    assert longer["input_tokens"] > 0


def test_a_change_before_the_mark_loses_the_prefix():
    cache = PromptCache()
    cache.count(body(text("a", marked=True)))
    assert cache.count(body(text("a", marked=True), system="Other."))["cache_read_input_tokens"] == 0


def test_a_mark_looks_back_twenty_blocks_and_no_further():
    near, far = PromptCache(), PromptCache()
    for cache, blocks in ((near, 19), (far, 20)):
        cache.count(body(text("a", marked=True)))
        more = [text(str(n)) for n in range(blocks - 1)]
        cache.count(body(text("a"), *more, text("end", marked=True)))
    assert near.read > 0
    assert far.read == 0
