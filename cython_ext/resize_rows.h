/* Two rows of an image blended into one: the loop that a resize spends its time in.
 *
 * On x86-64 with the GNU C library it exists twice, for processors with AVX2 and for all, and the loader
 * chooses. Both do the same operations on each sample in the same order, so the results are equal to the bit.
 */
#pragma once

#include <stddef.h>
#include <string.h> /* says which C library this is */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define CAMERA_AI_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CAMERA_AI_CLONES
#endif

/* mixed[k] = upper[k] + (lower[k] - upper[k]) * weight, in float. */
CAMERA_AI_CLONES
static void blend_rows(const unsigned char* restrict upper, const unsigned char* restrict lower, float weight,
                       ptrdiff_t samples, float* restrict mixed) {
    for (ptrdiff_t k = 0; k < samples; ++k) mixed[k] = upper[k] + (lower[k] - upper[k]) * weight;
}
