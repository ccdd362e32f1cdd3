/* Rows of bytes added up column by column: the only pass over all pixels of a plane that the motion kernel makes.
 *
 * Written so that compilers turn each loop into vector code.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* sums[x] = what `count` rows, `stride` bytes apart, add up to in column x; count is 1 to 257. */
static void add_rows(const uint8_t* row, ptrdiff_t stride, ptrdiff_t count, ptrdiff_t width,
                     uint16_t* restrict sums) {
    if (count >= 4) {
        const uint8_t *second = row + stride, *third = second + stride, *fourth = third + stride;
        for (ptrdiff_t x = 0; x < width; ++x) sums[x] = (uint16_t)(row[x] + second[x] + third[x] + fourth[x]);
        row = fourth + stride;
        count -= 4;
    } else {
        for (ptrdiff_t x = 0; x < width; ++x) sums[x] = row[x];
        row += stride;
        count -= 1;
    }
    for (; count >= 4; count -= 4, row += 4 * stride) {
        const uint8_t *second = row + stride, *third = second + stride, *fourth = third + stride;
        for (ptrdiff_t x = 0; x < width; ++x)
            sums[x] = (uint16_t)(sums[x] + row[x] + second[x] + third[x] + fourth[x]);
    }
    for (; count > 0; --count, row += stride)
        for (ptrdiff_t x = 0; x < width; ++x) sums[x] = (uint16_t)(sums[x] + row[x]);
}

/* The sum of `length` numbers. */
static uint32_t add_up(const uint16_t* numbers, ptrdiff_t length) {
    uint32_t total = 0;
    for (ptrdiff_t x = 0; x < length; ++x) total += numbers[x];
    return total;
}
