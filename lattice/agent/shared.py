"""Hands out the live conversation so that nobody can change it, and without copying it each time."""

from collections.abc import Iterable
from typing import Any

from lattice.messages import copy_json

__all__ = ["SharedMessages"]


class SharedMessages(list[Any]):
    """A list that copies an element the first time that Python code takes hold of it.

    So whoever is handed a conversation may edit what it got, and nobody else sees it, yet handing it out costs no copy
    of the whole. ``list.__iter__`` and encoders in C read without copying. Looks and behaves like the list it is.
    """

    __slots__ = ("_own",)

    def __init__(self, shared: Iterable[Any]) -> None:
        super().__init__(list.__iter__(shared) if isinstance(shared, list) else shared)
        self._own: set[int] | None = set()

    def _take_all(self) -> None:
        if self._own is not None:
            own, self._own = self._own, None
            for index, item in enumerate(list.__iter__(self)):
                if index not in own:
                    list.__setitem__(self, index, copy_json(item))

    def __getitem__(self, index: Any) -> Any:
        if self._own is None:
            return list.__getitem__(self, index)
        if isinstance(index, slice):
            self._take_all()
            return list.__getitem__(self, index)
        item = list.__getitem__(self, index)
        at = index if index >= 0 else len(self) + index
        if at in self._own:
            return item
        self._own.add(at)
        item = copy_json(item)
        list.__setitem__(self, at, item)
        return item

    def __iter__(self) -> Any:
        self._take_all()
        return list.__iter__(self)

    def __reversed__(self) -> Any:
        self._take_all()
        return list.__reversed__(self)

    def __add__(self, other: Any) -> Any:
        self._take_all()
        return list.__add__(self, other)

    def copy(self) -> list[Any]:
        """Return a plain list of copies."""
        self._take_all()
        return list(list.__iter__(self))

    def __copy__(self) -> list[Any]:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return [copy_json(item) for item in list.__iter__(self)]

    def __reduce__(self) -> Any:
        return list, (self.copy(),)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._take_all()
        list.__setitem__(self, index, value)

    def __delitem__(self, index: Any) -> None:
        self._take_all()
        list.__delitem__(self, index)

    def insert(self, index: Any, value: Any) -> None:
        """Insert before ``index``."""
        self._take_all()
        list.insert(self, index, value)

    def append(self, value: Any) -> None:
        """Append; the value is the caller's own already."""
        if self._own is not None:
            self._own.add(len(self))
        list.append(self, value)

    def extend(self, values: Any) -> None:
        """Append several."""
        self._take_all()
        list.extend(self, values)

    def __iadd__(self, values: Any) -> Any:
        self.extend(values)
        return self

    def pop(self, index: Any = -1) -> Any:
        """Take an element out."""
        self._take_all()
        return list.pop(self, index)

    def reverse(self) -> None:
        """Turn the order round."""
        self._take_all()
        list.reverse(self)

    def sort(self, **options: Any) -> None:
        """Sort in place."""
        self._take_all()
        list.sort(self, **options)

    def remove(self, value: Any) -> None:
        """Remove the first equal element."""
        self._take_all()
        list.remove(self, value)
