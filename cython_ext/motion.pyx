"""What moves before a camera: a luma plane reduced to cells, and compared with an adaptive background."""

cimport cython
from libc.math cimport fabsf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport llabs
from libc.string cimport memset

import numpy as np

from cython_ext import motion_grid as rules
from cython_ext.arrays import expect_count, expect_mask_of, expect_plane, expect_positive
from cython_ext.motion_light cimport Light, STEPS, fit_light, lit_level, lower_median, steps

cdef extern from "motion_rows.h" nogil:
    void add_rows(
        const uint8_t* row, Py_ssize_t stride, Py_ssize_t count, Py_ssize_t width, uint16_t* sums
    )
    uint32_t add_up(const uint16_t* numbers, Py_ssize_t length)

# What a cell is found to be in a frame.
cdef enum:
    ALIKE = 0
    DIFFERS = 1
    GATHERED = 2
    FORGOTTEN = 3

cdef float PLAIN_FACTOR = rules.PLAIN_FACTOR
cdef Py_ssize_t PLAIN_CELLS = rules.PLAIN_CELLS
cdef int MOST_OF = rules.MOST_OF
cdef double GHOST_CONTRAST = rules.GHOST_CONTRAST
cdef int LEAST_LIT_CELLS = rules.LEAST_LIT_CELLS
cdef double LEAST_LIT_VARIANCE = rules.LEAST_LIT_VARIANCE
cdef double LEAST_LIT_CORRELATION = rules.LEAST_LIT_CORRELATION
cdef float FIRST_DEVIATION = rules.FIRST_DEVIATION
cdef float AT_REST_S = rules.AT_REST_S
cdef float GHOST_S = rules.GHOST_S
cdef float ABSORB_S = rules.ABSORB_S
cdef float STILL_SHARE = rules.STILL_SHARE


cdef void reduce_to_cells(
    const uint8_t* luma,
    Py_ssize_t stride,
    Py_ssize_t height,
    Py_ssize_t width,
    Py_ssize_t side,
    Py_ssize_t row_step,
    uint16_t[::1] sums,
    float[:, ::1] means,
) noexcept nogil:
    """Write the mean of each cell; of each row of cells every `row_step`-th row of pixels is read."""
    cdef Py_ssize_t row, column, left, length, count
    for row in range(means.shape[0]):
        count = (min(side, height - row * side) + row_step - 1) // row_step
        add_rows(luma + row * side * stride, row_step * stride, count, width, &sums[0])
        for column in range(means.shape[1]):
            left = column * side
            length = min(side, width - left)
            means[row, column] = <float>add_up(&sums[left], length) / <float>(count * length)


@cython.final
@cython.auto_pickle(False)
cdef class MotionBackground:
    """An adaptive background of cells, for planes of one size; `reference_motion` defines what it computes.

    A plane is reduced to the means of cells (`motion_grid.grid_of`), the only pass over its pixels. Each cell
    has a background: its mean and mean absolute difference, forgotten exponentially. A change of light over
    most of the picture (drift, exposure, lamps) is fitted first and is no difference. Cells that differ by
    more than their noise and touch each other are the foreground, if there are enough of them; its background
    is kept. A cell at rest for `ABSORB_S` becomes background; so does, after `GHOST_S` at rest, a patch that
    is background uncovered by something that left, or the old texture under a local light.

    Everything is allocated here; `update` allocates nothing. Not for use by two threads at a time.

    Args:
        height, width: of the planes, px, at most 65,536.
        least_levels: luma levels below which no difference counts.
        noise_factor: how many times its noise (mean absolute difference) a cell has to differ.
        least_cells: how many cells that touch, corners included, are foreground.
        ignored: bool or uint8 (rows, columns) of the grid: cells that never count. It is copied.

    Attributes:
        grid: the `MotionGrid`.
        cells, mean, deviation: float32 (rows, columns), levels, of the last plane and the background; views
            that change with the next update.
        foreground: uint8 (rows, columns), 1 where the last plane shows the foreground; such a view, too.
        frames: planes seen since the background was begun.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape or range.

    Sources: running averages per cell as in Wren et al., Pfinder (1997), with mean absolute differences as
    in sigma-delta estimation (Manzanera and Richefeu 2007); selective update as in Haritaoglu et al., W4
    (2000); the light by Tukey's resistant line (1977); ghosts after Cucchiara et al. (2003).

    """

    def __cinit__(self, height, width, *, least_levels, noise_factor, least_cells, ignored=None):
        for name, length in (("height", height), ("width", width)):
            if not 1 <= expect_count(name, length) <= rules.LONGEST_SIDE_PX:
                raise ValueError(f"{name}: expected 1 to {rules.LONGEST_SIDE_PX} px, got {length}")
        self.grid = rules.grid_of(height, width)
        shape = (self.grid.rows, self.grid.columns)
        self.least_levels = expect_positive("least_levels", least_levels)
        self.noise_factor = expect_positive("noise_factor", noise_factor)
        self.least_cells = max(1, expect_count("least_cells", least_cells))
        self.ignored = np.zeros(shape[0] * shape[1], np.uint8)
        if ignored is not None:
            self.ignore(ignored)
        self._allocate(shape)

    def _allocate(self, shape):
        count = shape[0] * shape[1]
        self.cell_rows = cells = np.zeros(shape, np.float32)
        mean, deviation = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        foreground = np.zeros(shape, np.uint8)
        self.now, self.means = cells.reshape(-1), mean.reshape(-1)
        self.deviations, self.front = deviation.reshape(-1), foreground.reshape(-1)
        self.cells, self.mean, self.deviation, self.foreground = cells, mean, deviation, foreground
        for view in (self.cells, self.mean, self.deviation, self.foreground):
            view.flags.writeable = False
        self.lit, self.base = np.zeros(count, np.float32), np.zeros(count, np.float32)
        self.limits = np.zeros(count, np.float32)
        self.still, self.still_s = np.zeros(count, np.float32), np.zeros(count, np.float32)
        self.marks, self.used = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
        self.patch = np.zeros(count, np.int32)
        self.sums = np.zeros(self.grid.width, np.uint16)
        self.levels = np.zeros(256, np.int32)
        self.changes = np.zeros((2, 2 * 255 * rules.STEPS + 1), np.int32)
        self.sizes = np.zeros(255 * rules.STEPS + 1, np.int32)

    def ignore(self, ignored):
        """Set the cells that never count: bool or uint8 (rows, columns); the background goes on."""
        self._expect_idle()
        expect_mask_of("ignored", ignored, (self.grid.rows, self.grid.columns))
        self.ignored = (ignored != 0).astype(np.uint8).reshape(-1)

    def restart(self):
        """Forget the background: the next plane is the first."""
        self._expect_idle()
        self.frames = 0

    def _expect_idle(self):
        if self.is_busy:
            raise RuntimeError("MotionBackground: an update is at work in another thread")

    def update(self, luma, elapsed_s, *, learning=False):
        """Compare a plane with the background, and learn from it.

        The first plane becomes the background. While `learning`, all cells follow the picture at once and
        there is no foreground.

        Args:
            luma: uint8 (height, width); the pixels of a row side by side, rows at any distance from each
                other that is no less than a row, as in the planes of a decoded picture; only read.
            elapsed_s: seconds since the plane before, at least 0.
            learning: whether the background is being begun, or has changed as a whole.

        Returns:
            How many cells are foreground, how many differ from the background under the light that was
            fitted, and how many from the background as it was; the ignored ones left out.

        Raises:
            TypeError, ValueError: an argument of another type, dtype, shape, layout or range.
            RuntimeError: another thread is at it.

        Releases the GIL.

        """
        self._expect_idle()
        expect_plane("luma", luma, self.grid.height, self.grid.width)
        cdef float elapsed = expect_positive("elapsed_s", elapsed_s, or_zero=True)
        cdef const uint8_t[:, :] plane = luma
        cdef Py_ssize_t stride = luma.strides[0], height = self.grid.height, width = self.grid.width
        cdef Py_ssize_t side = self.grid.side_px, row_step = self.grid.row_step
        cdef bint is_learning = learning
        cdef Shares shares
        cdef Light light
        cdef int64_t moved = 0
        self.differing = self.changed = 0
        self.frames += 1
        share = rules.learned_share(elapsed_s, rules.MEAN_S)
        if learning:
            share = max(share, 1.0 / self.frames, rules.LEARNING_SHARE)
        fresh_share = 1.0 / (self.frames + rules.FIRST_DEVIATION_WEIGHT)
        shares.mean = share
        shares.deviation = max(rules.learned_share(elapsed_s, rules.DEVIATION_S), fresh_share)
        shares.restless = rules.learned_share(elapsed_s, rules.RESTLESS_S)
        self.is_busy = True
        with nogil:
            reduce_to_cells(&plane[0, 0], stride, height, width, side, row_step, self.sums, self.cell_rows)
            if self.frames == 1:
                self.begin()
            else:
                self.choose_used()
                light = fit_light(self.now, self.means, self.used, self.levels, self.changes)
                self.compare(light)
                memset(&self.front[0], 0, self.front.shape[0])
                if is_learning:
                    self.still_s[:] = -1
                else:
                    self.note_rest(light, elapsed)
                    moved = self.find_patches()
                self.learn(shares, is_learning)
        self.is_busy = False
        return moved, self.differing, self.changed

    cdef void begin(self) noexcept nogil:
        """Take the cells for the background."""
        self.means[:] = self.now
        self.deviations[:] = FIRST_DEVIATION
        self.still_s[:] = -1
        memset(&self.front[0], 0, self.front.shape[0])

    cdef void choose_used(self) noexcept nogil:
        """Choose the cells that tell of the light: all that count, without a small foreground."""
        cdef Py_ssize_t i
        cdef int64_t counting = 0, chosen = 0
        for i in range(self.used.shape[0]):
            self.used[i] = not (self.ignored[i] or self.front[i])
            counting += not self.ignored[i]
            chosen += self.used[i]
        if 2 * chosen < counting:
            for i in range(self.used.shape[0]):
                self.used[i] = not self.ignored[i]

    cdef void compare(self, Light light) noexcept nogil:
        """Mark the cells that differ from the background under this light, and count what has changed."""
        cdef Py_ssize_t i
        cdef int64_t total = 0
        cdef float noise = 0
        self.sizes[:] = 0
        for i in range(self.now.shape[0]):
            self.lit[i] = lit_level(self.means[i], light)
            # What lies between the background and its look under the light has followed it in part.
            self.base[i] = min(
                max(self.now[i], min(self.means[i], self.lit[i])), max(self.means[i], self.lit[i])
            )
            if self.used[i]:
                self.sizes[steps(fabsf(self.now[i] - self.base[i]))] += 1
                total += 1
        if total > 0:
            noise = <float>lower_median(self.sizes, total) / <float>STEPS
        for i in range(self.now.shape[0]):
            self.limits[i] = max(self.least_levels, self.noise_factor * max(self.deviations[i], noise))
            self.marks[i] = (
                DIFFERS
                if fabsf(self.now[i] - self.base[i]) > self.limits[i] and not self.ignored[i]
                else ALIKE
            )
            self.differing += self.marks[i]
            self.changed += fabsf(self.now[i] - self.means[i]) > self.limits[i] and not self.ignored[i]

    cdef void note_rest(self, Light light, float elapsed_s) noexcept nogil:
        """Note for how long each cell that differs has kept its value; -1 for those that do not differ."""
        cdef Py_ssize_t i
        cdef float still
        for i in range(self.marks.shape[0]):
            if self.marks[i] == ALIKE:
                self.still_s[i] = -1
                continue
            still = lit_level(self.still[i], light)
            if self.still_s[i] >= 0 and fabsf(self.now[i] - still) <= self.limits[i]:
                self.still[i] = still + STILL_SHARE * (self.now[i] - still)
                self.still_s[i] += elapsed_s
            else:
                self.still[i] = self.now[i]
                self.still_s[i] = 0

    cdef int64_t find_patches(self) noexcept nogil:
        """Make patches of enough cells the foreground, or mark them forgotten; returns the foreground's cells."""
        cdef Py_ssize_t start, k, i, count
        cdef int64_t moved = 0
        cdef bint forgotten
        for start in range(self.marks.shape[0]):
            if self.marks[start] != DIFFERS:
                continue
            count = self.gather_patch(start)
            if count < self.least_cells or not self.is_plain(count):
                continue
            forgotten = self.is_forgotten(count)
            for k in range(count):
                i = self.patch[k]
                if forgotten or self.still_s[i] >= ABSORB_S:
                    self.marks[i] = FORGOTTEN
                else:
                    self.front[i] = 1
                    moved += 1
        return moved

    cdef Py_ssize_t gather_patch(self, Py_ssize_t start) noexcept nogil:
        """Write the cells that touch each other, from one of them on, to `patch`; returns how many."""
        cdef Py_ssize_t columns = self.cell_rows.shape[1], rows = self.cell_rows.shape[0]
        cdef Py_ssize_t taken = 0, count = 1, row, column, near_row, near_column, near
        self.patch[0] = <int32_t>start
        self.marks[start] = GATHERED
        while taken < count:
            row, column = self.patch[taken] // columns, self.patch[taken] % columns
            taken += 1
            for near_row in range(max(row - 1, 0), min(row + 2, rows)):
                for near_column in range(max(column - 1, 0), min(column + 2, columns)):
                    near = near_row * columns + near_column
                    if self.marks[near] == DIFFERS:
                        self.marks[near] = GATHERED
                        self.patch[count] = <int32_t>near
                        count += 1
        return count

    cdef bint is_plain(self, Py_ssize_t count) noexcept nogil:
        """Tell whether enough cells of the patch at hand differ by far more than is needed."""
        cdef Py_ssize_t k, i
        cdef int64_t plain = 0
        for k in range(count):
            i = self.patch[k]
            plain += fabsf(self.now[i] - self.base[i]) > PLAIN_FACTOR * self.limits[i]
        return plain >= min(PLAIN_CELLS, count)

    cdef bint is_forgotten(self, Py_ssize_t count) noexcept nogil:
        """Tell whether the patch at hand is at rest and shows the background after all."""
        cdef Py_ssize_t k
        cdef int64_t at_rest = 0
        for k in range(count):
            at_rest += self.still_s[self.patch[k]] >= GHOST_S
        if MOST_OF * at_rest < (MOST_OF - 1) * count:
            return False
        return self.is_uncovered(count) or self.is_lit(count)

    cdef bint is_uncovered(self, Py_ssize_t count) noexcept nogil:
        """Tell whether the contour of the patch at hand is in the background, and not in the picture."""
        cdef Py_ssize_t columns = self.cell_rows.shape[1], rows = self.cell_rows.shape[0]
        cdef Py_ssize_t k, side, i, beyond, row, column
        cdef int64_t now = 0, before = 0
        for k in range(count):
            i = self.patch[k]
            for side in range(4):
                row = i // columns + (2 if side == 0 else -2 if side == 1 else 0)
                column = i % columns + (2 if side == 2 else -2 if side == 3 else 0)
                if not (0 <= row < rows and 0 <= column < columns):
                    continue
                beyond = row * columns + column
                if self.marks[beyond] != ALIKE or self.ignored[beyond]:
                    continue
                now += llabs(steps(self.now[i]) - steps(self.now[beyond]))
                before += llabs(steps(self.lit[i]) - steps(self.lit[beyond]))
        return before > GHOST_CONTRAST * now

    cdef bint is_lit(self, Py_ssize_t count) noexcept nogil:
        """Tell whether the patch at hand shows the background's texture under another light."""
        cdef Py_ssize_t k
        cdef int64_t now, before, sum_now = 0, sum_before = 0, now_2 = 0, before_2 = 0, both = 0
        cdef double least
        if count < LEAST_LIT_CELLS:
            return False
        for k in range(count):
            now, before = steps(self.now[self.patch[k]]), steps(self.lit[self.patch[k]])
            sum_now += now
            sum_before += before
            now_2 += now * now
            before_2 += before * before
            both += now * before
        both = count * both - sum_now * sum_before
        now_2 = count * now_2 - sum_now * sum_now
        before_2 = count * before_2 - sum_before * sum_before
        least = LEAST_LIT_VARIANCE * STEPS * STEPS * count * count
        if both <= 0 or now_2 < least or before_2 < least:
            return False
        return <double>both * <double>both >= (
            LEAST_LIT_CORRELATION * LEAST_LIT_CORRELATION * <double>now_2 * <double>before_2
        )

    cdef void learn(self, Shares shares, bint learning) noexcept nogil:
        """Move means and deviations; the foreground's mean follows the light alone."""
        cdef Py_ssize_t i
        cdef float difference, growth
        for i in range(self.now.shape[0]):
            difference = self.now[i] - self.base[i]
            growth = fabsf(difference) - self.deviations[i]
            if self.marks[i] == FORGOTTEN:
                self.means[i] = self.still[i]
                self.deviations[i] = FIRST_DEVIATION
                self.still_s[i] = -1
            elif self.front[i]:
                self.means[i] = self.lit[i]
                if self.still_s[i] < AT_REST_S:
                    self.deviations[i] += shares.restless * growth
            else:
                self.means[i] = self.base[i] + shares.mean * difference
                if not (learning and self.marks[i] == DIFFERS):
                    self.deviations[i] += shares.deviation * growth
