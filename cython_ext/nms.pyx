"""Greedy non-maximum suppression: of boxes that overlap, the best stays."""

from libc.math cimport isfinite, isnan
from libc.stdint cimport int64_t

import numpy as np

from cython_ext.arrays import expect_array, expect_count, expect_fraction


cdef double iou(const float[:, ::1] boxes, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """Intersection over union of two finite boxes; in float64 the largest float32 edges do not overflow."""
    cdef double width = <double>min(boxes[a, 2], boxes[b, 2]) - max(boxes[a, 0], boxes[b, 0])
    cdef double height = <double>min(boxes[a, 3], boxes[b, 3]) - max(boxes[a, 1], boxes[b, 1])
    if not (width > 0 and height > 0):
        return 0
    cdef double intersection = width * height
    cdef double area_a = (<double>boxes[a, 2] - boxes[a, 0]) * (<double>boxes[a, 3] - boxes[a, 1])
    cdef double area_b = (<double>boxes[b, 2] - boxes[b, 0]) * (<double>boxes[b, 3] - boxes[b, 1])
    return intersection / (area_a + area_b - intersection)


cdef inline bint is_usable(const float[:, ::1] boxes, const float[::1] scores, Py_ssize_t i) noexcept nogil:
    return not isnan(scores[i]) and (
        isfinite(boxes[i, 0]) and isfinite(boxes[i, 1]) and isfinite(boxes[i, 2]) and isfinite(boxes[i, 3])
    )


cdef Py_ssize_t keep_best(
    const float[:, ::1] boxes,
    const float[::1] scores,
    const int[::1] class_ids,
    const Py_ssize_t[::1] order,
    double iou_threshold,
    bint class_agnostic,
    Py_ssize_t max_candidates,
    int64_t[::1] kept,
) noexcept nogil:
    """Write the indices to keep, at most as many as `kept` holds; return how many. `order` is best first."""
    cdef Py_ssize_t count = 0, candidates = 0
    cdef Py_ssize_t position, index, k
    for position in range(order.shape[0]):
        if count == kept.shape[0] or candidates == max_candidates:
            break
        index = order[position]
        if not is_usable(boxes, scores, index):
            continue
        candidates += 1
        for k in range(count):
            if not class_agnostic and class_ids[kept[k]] != class_ids[index]:
                continue
            if iou(boxes, kept[k], index) > iou_threshold:
                break
        else:
            kept[count] = index
            count += 1
    return count


def nms(
    boxes_xyxy,
    scores,
    class_ids,
    iou_threshold,
    *,
    class_agnostic=False,
    max_detections=300,
    max_candidates=4096,
):
    """Keep the best of boxes that overlap, for each class or over all; `reference.nms` defines it.

    A box goes when its IoU with a kept one is greater than the threshold; equal stays. Equal scores keep the
    lower index. Boxes with a NaN score, or with NaN or infinity among their edges, are dropped. Classes are
    compared as they are, not told apart by moving boxes, so coordinates may be of any size.

    The work is at most ``max_detections * max_candidates`` comparisons, and sorting the scores.

    Args:
        boxes_xyxy: float32 (n, 4), C-contiguous, as the two below; all are only read.
        scores: float32 (n,).
        class_ids: int32 (n,).
        iou_threshold: 0 to 1.
        class_agnostic: whether a box also suppresses those of other classes.
        max_detections: how many boxes to keep at most.
        max_candidates: how many boxes, best first, to look at.

    Returns:
        int64 (m,), indices of the boxes to keep, by score descending.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape, layout or range.

    Releases the GIL (NumPy does, too, while it sorts).

    """
    expect_array("boxes_xyxy", boxes_xyxy, np.float32, ("n", 4))
    count = len(boxes_xyxy)
    expect_array("scores", scores, np.float32, (count,))
    expect_array("class_ids", class_ids, np.int32, (count,))
    cdef double threshold = expect_fraction("iou_threshold", iou_threshold)
    cdef Py_ssize_t candidates = min(count, expect_count("max_candidates", max_candidates))
    result = np.empty(min(count, expect_count("max_detections", max_detections)), np.int64)
    cdef const float[:, ::1] box_rows = boxes_xyxy
    cdef const float[::1] score_row = scores
    cdef const int[::1] class_row = class_ids
    cdef const Py_ssize_t[::1] order = np.argsort(-scores, kind="stable")
    cdef bint all_classes = class_agnostic
    cdef int64_t[::1] kept = result
    cdef Py_ssize_t found
    with nogil:
        found = keep_best(box_rows, score_row, class_row, order, threshold, all_classes, candidates, kept)
    return result[:found]
