"""Values in PostgreSQL's own binary form as parameters of statements."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format
from psycopg.rows import TupleRow


class Field(bytes):
    """A value as a binary COPY has it. Bound with `%b`, its type is that of the column it goes to."""


class _FieldDumper(Dumper):
    format = Format.BINARY
    # The server infers the type.
    oid = 0

    def dump(self, obj: Field) -> Buffer:
        return obj


def register(connection: AsyncConnection[TupleRow]) -> None:
    connection.adapters.register_dumper(Field, _FieldDumper)
