"""What can be chosen by name: algorithms, critics, environments and engines, each in a registry of the same kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from sandboxes.named import unknown

Entry = TypeVar("Entry")


class Registry(dict[str, Entry], Generic[Entry]):
    """Entries by name, in the order in which they were registered: `registry["mine"] = entry` registers one.

    Args:
        setting: The setting that takes a name, for errors.
        entries: The entries that come with the package.
        others: What the setting takes besides the names, for errors; "" for nothing.
    """

    def __init__(self, setting: str, entries: Mapping[str, Entry], others: str = "or 'package.module:Class'") -> None:
        super().__init__(entries)
        self.setting, self.others = setting, others

    def find(self, name: str, setting: str = "") -> Entry:
        """The entry of a name.

        Args:
            name: The name.
            setting: The setting that gave the name; "" for that of the registry.

        Raises:
            ValueError: If there is no such name; says which there are, and the nearest.
        """
        if name not in self:
            raise unknown(setting or self.setting, name, self, self.others)
        return self[name]
