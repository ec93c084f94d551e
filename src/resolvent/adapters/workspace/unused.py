"""Layers that no branch stands on, and what layers take on the disk: what housekeeping asks of the record."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from resolvent.adapters.journal.store import Store
from resolvent.adapters.workspace.branch_rows import SIZES, Rows, in_rows
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.layer_store import LayerStore
from resolvent.adapters.workspace.scratch import clear_away


class UnusedLayers:
    """The layers of one store beside its record; they are looked for and taken while nobody can name one anew."""

    def __init__(self, store: Store, layers: LayerStore) -> None:
        self._store = store
        self._layers = layers

    async def find(self) -> tuple[frozenset[str], frozenset[str]]:
        """The layers that some branch names, and those on the disk that none does, whatever a power loss takes back."""

        def work(rows: Rows) -> tuple[frozenset[str], frozenset[str]]:
            rows.barrier()
            named = rows.named()
            return named, frozenset(self._layers.names()) - named

        return await self._store.transaction(in_rows(work))

    async def remove(self, layers: Sequence[str]) -> tuple[str, ...]:
        """Remove those of these layers that no branch names; which they were."""

        def work(rows: Rows) -> dict[str, Path]:
            buried = {name: grave for name in rows.unnamed(layers) if (grave := self._layers.bury(name))}
            rows.resize(dict.fromkeys(buried))
            return buried

        if not layers:
            return ()
        # On the disk before the files go: a row that a power loss brought back would stand on nothing.
        await self._store.transaction(in_rows(Rows.barrier))
        buried = await self._store.ordered(in_rows(work))
        with translated():
            # Several at once: most of it is waiting for the file system.
            await asyncio.gather(*(asyncio.to_thread(clear_away, grave) for grave in buried.values()))
        return tuple(buried)

    async def sizes(self) -> dict[str, int]:
        """The bytes of the sealed layers that were measured."""
        return {row["layer"]: row["bytes"] for row in await self._store.read(SIZES)}

    async def measured(self, sizes: Mapping[str, int]) -> None:
        """Remember the bytes of sealed layers: they do not change."""
        await self._store.ordered(in_rows(lambda rows: rows.resize(sizes)))
