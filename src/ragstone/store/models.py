"""Embedding models as the database knows them."""

from __future__ import annotations

from functools import partial

from ragstone.errors import ModelMismatch
from ragstone.postgres.pool import Connection, Database
from ragstone.store.checks import storable
from ragstone.store.statements import QUERIES, Model, View, other_model
from ragstone.types import Scope

MAX_DIMENSION = 16_000
"""What halfvec holds."""


class Models:
    """Identity -> model, asked of the database once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._models: dict[str, Model] = {}

    async def known(self, identity: str, dimension: int) -> Model | None:
        """The model if the database knows it. Raises ModelMismatch when it knows another dimension."""
        model = self._models.get(identity)
        if model is None and storable(identity):
            model = await self._database.run_retrying(partial(_find, identity=identity))
        return None if model is None else self._checked(model, dimension)

    async def registered(self, identity: str, dimension: int, *, base_id: str | None = None) -> Model:
        """The model, entered in a transaction of its own when it is new.

        With `base_id`, only if that base can take it.
        """
        model = await self.known(identity, dimension)
        if model is not None:
            return model
        if dimension > MAX_DIMENSION or not storable(identity):
            raise ModelMismatch(
                "store.dimension_limit", model=repr(identity)[:80], found=dimension, limit=MAX_DIMENSION
            )
        model = await self._database.run_retrying(partial(_register, identity, dimension, base_id))
        assert model is not None  # just inserted
        return self._checked(model, dimension)

    def _checked(self, model: Model, dimension: int) -> Model:
        self._models[model.identity] = model
        if model.dimension != dimension:
            raise ModelMismatch(
                "store.dimension", model=model.identity, found=dimension, stored=model.dimension
            )
        return model


async def _find(connection: Connection, identity: str) -> Model | None:
    row = await (await connection.execute(QUERIES["find_model"], {"identity": identity})).fetchone()
    return None if row is None else Model(identity=identity, model_id=row[0], dimension=row[1])


async def _register(
    identity: str, dimension: int, base_id: str | None, connection: Connection
) -> Model | None:
    if base_id is not None:
        # A base that cannot take the model must not leave the model behind.
        statement = other_model(identity, View(scope=Scope(bases=(base_id,))))
        foreign = await (await connection.execute(statement.sql, statement.values)).fetchone()
        if foreign is not None:
            raise ModelMismatch("store.model", base=foreign[0], stored=foreign[1], model=identity)
    await connection.execute(QUERIES["insert_model"], {"identity": identity, "dimension": dimension})
    return await _find(connection, identity)
