import threading
import time

from lattice.ids import derive_id, new_id


def test_later_ids_sort_after_earlier_ones():
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {len(each) for each in ids} == {26}


def test_an_id_begins_with_its_time():
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    before = time.time_ns() // 1_000_000
    number = 0
    for letter in new_id()[:10]:
        number = number * 32 + alphabet.index(letter)
    assert before <= number <= time.time_ns() // 1_000_000 + 1


def test_threads_never_make_the_same_id():
    made = []

    def make():
        made.extend([new_id() for _ in range(2000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000


def test_a_derived_id_depends_on_its_parts_alone():
    assert derive_id("run", 1) == derive_id("run", "1")
    assert len(derive_id("run", 1)) == 26
    different = {derive_id("a", "bc"), derive_id("ab", "c"), derive_id("abc"), derive_id("a", "b", "c"), derive_id()}
    assert len(different) == 5
