"""What detection models put out, decoded to boxes, scores and class ids.

A first pass over all scores, flat so that compilers turn it into vector code, counts for each anchor the
classes that reach the threshold. The results are allocated for that many, and a second pass computes only
those.
"""

from libc.math cimport exp, isfinite

import math

import numpy as np

from cython_ext.arrays import expect_array, expect_fraction, expect_mask, expect_size

# How far below `min_score` the scan of logits begins: well above what float32 rounds off.
_SCORE_MARGIN = 1e-6


cdef Py_ssize_t mark_rows(
    const float[:, ::1] values, Py_ssize_t first, Py_ssize_t objectness, float threshold, int[::1] hits
) noexcept nogil:
    """Count for each row the values from column `first` on that reach the threshold; return the sum.

    Each value is multiplied by its row's column `objectness`, unless that is negative.
    """
    cdef Py_ssize_t row, column, total = 0
    cdef float weight = 1
    cdef int count
    for row in range(values.shape[0]):
        if objectness >= 0:
            weight = values[row, objectness]
        count = 0
        for column in range(first, values.shape[1]):
            count += values[row, column] * weight >= threshold
        hits[row] = count
        total += count
    return total


cdef Py_ssize_t mark_columns(
    const float[:, ::1] values, Py_ssize_t first, Py_ssize_t objectness, float threshold, int[::1] hits
) noexcept nogil:
    """As `mark_rows` for the transposed layout: an anchor is a column, a class a row."""
    cdef Py_ssize_t row, column, total = 0
    for column in range(values.shape[1]):
        hits[column] = 0
    for row in range(first, values.shape[0]):
        if objectness >= 0:
            for column in range(values.shape[1]):
                hits[column] += values[row, column] * values[objectness, column] >= threshold
        else:
            for column in range(values.shape[1]):
                hits[column] += values[row, column] >= threshold
    for column in range(values.shape[1]):
        total += hits[column]
    return total


cdef inline float clip(double value, double limit) noexcept nogil:
    """From 0 to the limit; NaN stays."""
    return <float>(0 if value < 0 else limit if value > limit else value)


cdef inline bint has_area(const float[:, ::1] boxes, Py_ssize_t i) noexcept nogil:
    """Whether width and height are positive; NaN is not."""
    return boxes[i, 2] > boxes[i, 0] and boxes[i, 3] > boxes[i, 1]


cdef Py_ssize_t fill_ssd(
    const float[:, ::1] encodings,
    const float[:, ::1] logits,
    const float[:, ::1] anchors,
    Py_ssize_t frame_w,
    Py_ssize_t frame_h,
    float threshold,
    float min_score,
    const unsigned char[::1] wanted,
    const int[::1] hits,
    float[:, ::1] boxes,
    float[::1] scores,
    int[::1] class_ids,
) noexcept nogil:
    """Write the detections of the anchors with hits; return how many there are, at most the sum of hits."""
    cdef Py_ssize_t count = 0, anchor, class_id
    cdef double size_y, size_x, centre_y, centre_x, half_y, half_x
    cdef float score
    for anchor in range(logits.shape[0]):
        if hits[anchor] == 0:
            continue
        size_y = <double>anchors[anchor, 2] - anchors[anchor, 0]
        size_x = <double>anchors[anchor, 3] - anchors[anchor, 1]
        centre_y = (<double>anchors[anchor, 0] + anchors[anchor, 2]) / 2
        centre_x = (<double>anchors[anchor, 1] + anchors[anchor, 3]) / 2
        centre_y = encodings[anchor, 0] / 10.0 * size_y + centre_y
        centre_x = encodings[anchor, 1] / 10.0 * size_x + centre_x
        half_y = exp(encodings[anchor, 2] / 5.0) * size_y / 2
        half_x = exp(encodings[anchor, 3] / 5.0) * size_x / 2
        for class_id in range(1, logits.shape[1]):
            if not (logits[anchor, class_id] >= threshold and wanted[class_id]):
                continue
            score = <float>(1 / (1 + exp(-<double>logits[anchor, class_id])))
            if score < min_score:
                continue
            boxes[count, 0] = clip((centre_x - half_x) * frame_w, frame_w)
            boxes[count, 1] = clip((centre_y - half_y) * frame_h, frame_h)
            boxes[count, 2] = clip((centre_x + half_x) * frame_w, frame_w)
            boxes[count, 3] = clip((centre_y + half_y) * frame_h, frame_h)
            if not has_area(boxes, count):
                break
            scores[count] = score
            class_ids[count] = <int>class_id
            count += 1
    return count


cdef inline void ungrid(
    Py_ssize_t anchor,
    Py_ssize_t input_h,
    Py_ssize_t input_w,
    double* centre_x,
    double* centre_y,
    double* size,
) noexcept nogil:
    """Move YOLOX's raw centre and size (width, height) from its grid cell to pixels of the input."""
    cdef Py_ssize_t stride = 8
    while anchor >= (input_h // stride) * (input_w // stride):
        anchor -= (input_h // stride) * (input_w // stride)
        stride *= 2
    centre_x[0] = (centre_x[0] + anchor % (input_w // stride)) * stride
    centre_y[0] = (centre_y[0] + anchor // (input_w // stride)) * stride
    size[0] = exp(size[0]) * stride
    size[1] = exp(size[1]) * stride


cdef Py_ssize_t fill_yolo(
    const float[:, :] values,
    Py_ssize_t first,
    Py_ssize_t objectness,
    Py_ssize_t input_h,
    Py_ssize_t input_w,
    float min_score,
    const unsigned char[::1] wanted,
    const int[::1] hits,
    float[:, ::1] boxes,
    float[::1] scores,
    int[::1] class_ids,
) noexcept nogil:
    """Write the detections of the anchors with hits and return how many there are, at most one each.

    `values` is (anchor, channel) for either layout, hence strided. With an `input_h` the boxes are YOLOX's.
    """
    cdef Py_ssize_t count = 0, anchor, class_id, best, k
    cdef double centre_x, centre_y
    cdef double[2] size
    cdef float score
    for anchor in range(values.shape[0]):
        if hits[anchor] == 0:
            continue
        best = first
        for k in range(first + 1, values.shape[1]):
            # NaN never wins, not even from the first place.
            if values[anchor, k] > values[anchor, best] or values[anchor, best] != values[anchor, best]:
                best = k
        class_id = best - first
        score = values[anchor, best]
        if objectness >= 0:
            score = score * values[anchor, objectness]
        if not (score >= min_score and wanted[class_id]):
            continue
        centre_x, centre_y = values[anchor, 0], values[anchor, 1]
        size[0], size[1] = values[anchor, 2], values[anchor, 3]
        if input_h > 0:
            ungrid(anchor, input_h, input_w, &centre_x, &centre_y, size)
        boxes[count, 0] = <float>(centre_x - size[0] / 2)
        boxes[count, 1] = <float>(centre_y - size[1] / 2)
        boxes[count, 2] = <float>(centre_x + size[0] / 2)
        boxes[count, 3] = <float>(centre_y + size[1] / 2)
        for k in range(4):
            if not isfinite(boxes[count, k]):
                break
        else:
            if has_area(boxes, count):
                scores[count] = score
                class_ids[count] = <int>class_id
                count += 1
    return count


def decode_ssd(box_encodings, class_logits, anchors, frame_wh, min_score, *, class_mask=None):
    """Turn the outputs of an SSD into boxes of the frame; `reference.decode_ssd` defines it.

    Every pair of anchor and class that reaches `min_score` is a detection of its own, in order of anchor,
    then class. Class 0 is the background and never answered. Boxes are clipped to the frame, those left
    without area dropped, and so are NaN scores and boxes. Scores and edges equal the reference's to one unit
    in the last place; so a score may fall on the other side of `min_score` only within that.

    Args:
        box_encodings: float32 (n, 4), ty, tx, th, tw; C-contiguous, as all arrays here; all are only read.
        class_logits: float32 (n, classes), before the sigmoid.
        anchors: float32 (n, 4), ymin, xmin, ymax, xmax, 0 to 1.
        frame_wh: width and height of the frame, px.
        min_score: 0 to 1, rounded to float32.
        class_mask: bool or uint8 (classes,), true for the classes wanted; None for all.

    Returns:
        boxes_xyxy float32 (m, 4), frame px; scores float32 (m,); class_ids int32 (m,). They are views of
        arrays with room for every pair whose logit reaches the threshold.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape, layout or range.

    Releases the GIL. Source: Liu et al. 2016, with the box coder of TensorFlow's object detection.

    """
    expect_array("class_logits", class_logits, np.float32, ("n", "classes"))
    anchor_count, classes = class_logits.shape
    expect_array("box_encodings", box_encodings, np.float32, (anchor_count, 4))
    expect_array("anchors", anchors, np.float32, (anchor_count, 4))
    cdef Py_ssize_t frame_w, frame_h
    frame_w, frame_h = expect_size("frame_wh", frame_wh)
    cdef float least = expect_fraction("min_score", min_score)
    cdef float threshold = _logit(least - _SCORE_MARGIN)
    cdef const float[:, ::1] encodings = box_encodings
    cdef const float[:, ::1] logits = class_logits
    cdef const float[:, ::1] anchor_rows = anchors
    cdef const unsigned char[::1] wanted = _wanted(class_mask, classes)
    cdef int[::1] hits = np.empty(anchor_count, np.int32)
    cdef Py_ssize_t count
    with nogil:
        count = mark_rows(logits, 1, -1, threshold, hits)
    boxes_xyxy, scores, class_ids = _room(count)
    cdef float[:, ::1] box_rows = boxes_xyxy
    cdef float[::1] score_row = scores
    cdef int[::1] class_row = class_ids
    with nogil:
        count = fill_ssd(
            encodings, logits, anchor_rows, frame_w, frame_h, threshold, least, wanted, hits,
            box_rows, score_row, class_row,
        )
    return boxes_xyxy[:count], scores[:count], class_ids[:count]


def decode_yolo(output, *, channels_first, has_objectness, min_score, class_mask=None):
    """Turn a YOLO head's output into boxes of the model's input; `reference.decode_yolo` defines it.

    An anchor carries one label: its best class, the lowest id among equals, as YOLOv8 does; a mask drops
    anchors and never changes a label. Boxes without area, or with NaN or infinity among their edges, are
    dropped, and so are NaN scores; boxes are not clipped. The result is in order of anchor and equals the
    reference's.

    Args:
        output: float32 (4 + classes, n) with `channels_first` (YOLOv8, YOLO11), else (n, 4 + classes): centre
            x, y, width, height in model px, then, with `has_objectness`, the objectness, then scores from 0
            to 1. C-contiguous; only read.
        channels_first: whether an anchor is a column.
        has_objectness: whether channel 4 is a factor of all scores (YOLOv5, YOLOX).
        min_score: 0 to 1, rounded to float32.
        class_mask: bool or uint8 (classes,), true for the classes wanted; None for all.

    Returns:
        boxes_xyxy float32 (m, 4), model px; scores float32 (m,); class_ids int32 (m,). They are views of
        arrays with room for every anchor that may reach `min_score`.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape, layout or range.

    Releases the GIL. Source: the heads of YOLOv5, YOLOv8 and YOLO11.

    """
    return _decode_anchors(output, bool(channels_first), bool(has_objectness), (0, 0), min_score, class_mask)


def decode_yolox(output, input_hw, min_score, *, class_mask=None):
    """Turn YOLOX's raw output into boxes of the model's input; `reference.decode_yolox` defines it.

    The grids of strides 8, 16 and 32 are applied here; the rest is `decode_yolo` with objectness. Edges equal
    the reference's to one unit in the last place.

    Args:
        output: float32 (n, 5 + classes): tx, ty, tw, th, objectness, class scores; C-contiguous; only read.
        input_hw: height and width of the model's input, px, multiples of 32.
        min_score: 0 to 1, rounded to float32.
        class_mask: bool or uint8 (classes,), true for the classes wanted; None for all.

    Returns:
        As `decode_yolo`.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape, layout or range; the number of
            anchors is not that of the grids over `input_hw`.

    Releases the GIL. Source: Ge et al. 2021.

    """
    height, width = expect_size("input_hw", input_hw)
    if height % 32 or width % 32:
        raise ValueError(f"input_hw: expected multiples of 32, got {(height, width)}")
    anchor_count = sum((height // stride) * (width // stride) for stride in (8, 16, 32))
    expect_array("output", output, np.float32, (anchor_count, "5 + classes"))
    return _decode_anchors(output, False, True, (height, width), min_score, class_mask)


def _decode_anchors(output, channels_first, has_objectness, input_hw, min_score, class_mask):
    """Decode one label an anchor; `input_hw` is (0, 0) unless the boxes are relative to YOLOX's grids."""
    cdef Py_ssize_t first = 5 if has_objectness else 4
    cdef Py_ssize_t objectness = 4 if has_objectness else -1
    channels = f"{first} + classes"
    expect_array("output", output, np.float32, (channels, "n") if channels_first else ("n", channels))
    rows = output.T if channels_first else output
    anchor_count, width = rows.shape
    if width <= first:
        raise ValueError(
            f"output: expected {channels} channels, at least {first + 1}, got shape {output.shape}"
        )
    cdef Py_ssize_t input_h, input_w
    input_h, input_w = input_hw
    cdef float least = expect_fraction("min_score", min_score)
    cdef bint by_column = channels_first
    cdef const float[:, ::1] values = output
    cdef const float[:, :] by_anchor = rows
    cdef const unsigned char[::1] wanted = _wanted(class_mask, width - first)
    cdef int[::1] hits = np.empty(anchor_count, np.int32)
    cdef Py_ssize_t count
    with nogil:
        if by_column:
            count = mark_columns(values, first, objectness, least, hits)
        else:
            count = mark_rows(values, first, objectness, least, hits)
    boxes_xyxy, scores, class_ids = _room(min(count, anchor_count))
    cdef float[:, ::1] box_rows = boxes_xyxy
    cdef float[::1] score_row = scores
    cdef int[::1] class_row = class_ids
    with nogil:
        count = fill_yolo(
            by_anchor, first, objectness, input_h, input_w, least, wanted, hits,
            box_rows, score_row, class_row,
        )
    return boxes_xyxy[:count], scores[:count], class_ids[:count]


def _logit(score):
    """The logit whose sigmoid is `score`; minus infinity below 0."""
    return math.log(score / (1 - score)) if score > 0 else -math.inf


def _wanted(class_mask, classes):
    """A byte for each class, true for those wanted."""
    if class_mask is None:
        return np.ones(classes, np.uint8)
    expect_mask("class_mask", class_mask, classes)
    return class_mask.view(np.uint8)


def _room(count):
    """Arrays for boxes_xyxy, scores and class_ids of `count` detections."""
    return np.empty((count, 4), np.float32), np.empty(count, np.float32), np.empty(count, np.int32)
