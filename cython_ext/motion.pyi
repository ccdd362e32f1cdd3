"""What moves before a camera, on the luma planes of its pictures; docstrings in full in `motion.pyx`."""

from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from cython_ext.motion_grid import MotionGrid

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

@final
class MotionBackground:
    """An adaptive background of cells, for planes of one size."""

    @property
    def grid(self) -> MotionGrid:
        """The cells of its planes."""

    @property
    def cells(self) -> NDArray[np.float32]:
        """The last plane's levels (rows, columns)."""

    @property
    def mean(self) -> NDArray[np.float32]:
        """The background's levels."""

    @property
    def deviation(self) -> NDArray[np.float32]:
        """The background's mean absolute differences."""

    @property
    def foreground(self) -> NDArray[np.uint8]:
        """1 for the foreground in the last plane (rows, columns)."""

    @property
    def frames(self) -> int:
        """Planes seen since the background was begun."""

    def __new__(
        cls,
        height: int,
        width: int,
        *,
        least_levels: float,
        noise_factor: float,
        least_cells: int,
        ignored: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
    ) -> Self: ...
    def ignore(self, ignored: NDArray[np.bool_] | NDArray[np.uint8]) -> None:
        """Set the cells that never count; the background goes on."""

    def restart(self) -> None:
        """Forget the background: the next plane is the first."""

    def update(
        self, luma: NDArray[np.uint8], elapsed_s: float, *, learning: bool = False
    ) -> tuple[int, int, int]:
        """Compare a uint8 (height, width) plane; returns counts: foreground, differing, changed."""
