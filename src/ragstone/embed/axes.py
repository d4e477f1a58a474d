"""What multilingual-e5-small adds to a vector for the language of the text, and how to take it away.

Texts of one language lie nearer to each other than what they say makes them: in a base of
both languages every passage of the question's language outranks the right one of the other.
Most of it lies along one direction, from the mean of Chinese passages to that of English
ones. Vectors without it rank as well within a language and far better across (docs/hybrid.md).

`e5.npy` holds three rows: that direction for whole texts, the mean of all tokens, and the
direction for tokens. `benchmarks/axes.py` makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LanguageAxes:
    """Each of shape (dimension,); the directions have length 1."""

    text: NDArray[np.float32]
    token_mean: NDArray[np.float32]
    token: NDArray[np.float32]

    @classmethod
    def read(cls) -> LanguageAxes:
        import numpy as np

        with as_file(files("ragstone.embed") / "e5.npy") as path:
            return cls(*np.load(path, allow_pickle=False))

    def texts(self, means: NDArray[np.float32]) -> NDArray[np.float32]:
        """Means of the last layer as unit vectors, row by row."""
        return unit(_without(unit(means), self.text))

    def tokens(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Tokens of the last layer as unit vectors around their mean, row by row."""
        return unit(_without(unit(states) - self.token_mean, self.token))


def _without(values: NDArray[np.float32], direction: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    return (values - np.outer(values @ direction, direction)).astype(np.float32, copy=False)


def unit(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; zero rows stay zero."""
    import numpy as np

    lengths = np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)
    return (values / lengths).astype(np.float32, copy=False)
