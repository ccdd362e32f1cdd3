"""What the kernels compute, in plain NumPy: the specification, and the oracle of their tests.

Images are uint8 (height, width, 3). Boxes are float32 (n, 4); ``_xyxy`` is left, top, right, bottom in
continuous pixels: a frame spans 0 to its width and 0 to its height. Unless a docstring says otherwise,
arithmetic on boxes and scores is float64 on the float32 inputs, rounded to float32 once at the end; an
implementation may differ by one unit in the last place. The kernels check their arguments; these do not.
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cython_ext.letterbox import Letterbox, place_letterbox

YOLOX_STRIDES = (8, 16, 32)

Detections = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]


def linear_taps(source: int, length: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Say which two source pixels each of `length` output pixels lies between, and the second one's weight.

    The position is ``(i + 0.5) * source / length - 0.5`` in float64; its floor is the first pixel, its
    fraction, rounded to float32, the weight. Before the first pixel and beyond the last, the nearest counts
    alone.
    """
    positions = (np.arange(length) + 0.5) * source / length - 0.5
    first = np.floor(positions)
    weights = (positions - first).astype(np.float32)
    weights[first < 0] = 0
    first = np.maximum(first, 0).astype(np.intp)
    return first, np.minimum(first + 1, source - 1), weights


def resize(image: NDArray[np.uint8], out_hw: tuple[int, int]) -> NDArray[np.float32]:
    """Resize to float32 (out_h, out_w, 3): bilinear, half-pixel centres, no antialiasing.

    All in float32: blend the two source rows, then the two columns, each as ``a + (b - a) * weight``. Equals
    ``cv2.resize(image.astype(float32), …, interpolation=INTER_LINEAR)`` to 4e-7 of the value range where
    OpenCV has IPP (its wheels for x86). OpenCV's own code rounds positions to float32, which alone moves a
    weight by up to 6e-5 at column 2000.
    """
    top, bottom, weights_y = linear_taps(image.shape[0], out_hw[0])
    left, right, weights_x = linear_taps(image.shape[1], out_hw[1])
    values = image.astype(np.float32)
    rows = values[top] + (values[bottom] - values[top]) * weights_y[:, None, None]
    return rows[:, left] + (rows[:, right] - rows[:, left]) * weights_x[None, :, None]


def resize_to_tensor(
    image: NDArray[np.uint8],
    out_hw: tuple[int, int],
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    *,
    bgr: bool = False,
) -> NDArray[np.float32]:
    """Resize an image to a model's input, not keeping its aspect.

    Returns float32 (1, 3, out_h, out_w), ``value * scale + offset`` in float32, where value is `resize`'s,
    0 to 255. `scale` and `offset` are one number, or one for each channel in the tensor's order. `bgr` swaps
    the image's first and third channel on the way: an RGB image becomes a BGR tensor.
    """
    resized = resize(image[..., ::-1] if bgr else image, out_hw)
    resized = resized * np.asarray(scale, np.float32) + np.asarray(offset, np.float32)
    return np.ascontiguousarray(resized.transpose(2, 0, 1)[None])


def letterbox_to_tensor(
    image: NDArray[np.uint8],
    out_hw: tuple[int, int],
    pad_value: float,
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    *,
    bgr: bool = False,
    centred: bool = True,
) -> tuple[NDArray[np.float32], Letterbox]:
    """Resize an image to a model's input, keeping its aspect; `place_letterbox` says where it lies.

    The picture is `resize_to_tensor`'s for the scaled size. All else is ``pad_value * scale + offset``, where
    `pad_value` is a pixel value (YOLO: 114).
    """
    placed = place_letterbox((image.shape[1], image.shape[0]), (out_hw[1], out_hw[0]), centred=centred)
    (left, top), (width, height) = placed.pad_xy, placed.scaled_wh
    padding = np.float32(pad_value) * np.asarray(scale, np.float32) + np.asarray(offset, np.float32)
    tensor = np.empty((1, 3, *out_hw), np.float32)
    tensor[:] = np.broadcast_to(padding, 3)[None, :, None, None]
    picture = resize_to_tensor(image, (height, width), scale, offset, bgr=bgr)
    tensor[:, :, top : top + height, left : left + width] = picture
    return tensor, placed


def unletterbox(boxes_xyxy: NDArray[np.float32], letterbox: Letterbox) -> NDArray[np.float32]:
    """Lead boxes from the model's input back to the frame: ``(model - pad) / scale``, clipped to the frame.

    Each input row gives one row with 0 <= x1 <= x2 <= width and 0 <= y1 <= y2 <= height, float32 (n, 4). A
    right or bottom edge before its opposite is moved onto it. A row that holds NaN becomes zeros.
    """
    pad = np.array(letterbox.pad_xy * 2, np.float64)
    scale = np.array(letterbox.scale_xy * 2, np.float64)
    edges = np.clip((boxes_xyxy - pad) / scale, 0, np.array(letterbox.frame_wh * 2, np.float64))
    edges[:, 2:] = np.maximum(edges[:, :2], edges[:, 2:])
    edges[np.isnan(boxes_xyxy).any(axis=1)] = 0
    return edges.astype(np.float32)


def decode_ssd(
    box_encodings: NDArray[np.float32],
    class_logits: NDArray[np.float32],
    anchors: NDArray[np.float32],
    frame_wh: tuple[int, int],
    min_score: float,
    *,
    class_mask: NDArray[np.bool_] | None = None,
) -> Detections:
    """Turn the outputs of an SSD into boxes of the frame (Liu et al. 2016, with TensorFlow's coder).

    `box_encodings` (n, 4) is ty, tx, th, tw; `anchors` (n, 4) ymin, xmin, ymax, xmax, 0 to 1. The centre is
    ``t / 10 * anchor size + anchor centre``, the size ``exp(t / 5) * anchor size``; times `frame_wh`, clipped
    to the frame. `class_logits` is (n, classes); class 0 is the background and never answered. The score is
    the logit's sigmoid, rounded to float32.

    Every pair of anchor and class is a detection of its own (an anchor may carry several labels), in order of
    anchor, then class, if its score is at least `min_score` (rounded to float32), its class is in
    `class_mask` (true means wanted; none: all), and its clipped float32 box has a positive width and height.
    NaN never passes; a size that overflows reaches the frame's edge.

    Returns boxes_xyxy (m, 4) float32, scores (m,) float32, class_ids (m,) int32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scores = (1 / (1 + np.exp(-class_logits.astype(np.float64)))).astype(np.float32)
        wanted = scores >= np.float32(min_score)
        wanted[:, 0] = False
        if class_mask is not None:
            wanted &= class_mask.astype(bool)
        encodings, edges = box_encodings.astype(np.float64), anchors.astype(np.float64)
        sizes = edges[:, 2:] - edges[:, :2]
        centres = encodings[:, :2] / 10 * sizes + (edges[:, :2] + edges[:, 2:]) / 2
        halves = np.exp(encodings[:, 2:] / 5) * sizes / 2
        yxyx = np.concatenate([centres - halves, centres + halves], axis=1)
        frame = np.array(frame_wh * 2, np.float64)
        boxes_xyxy = np.clip(yxyx[:, [1, 0, 3, 2]] * frame, 0, frame).astype(np.float32)
    wanted &= _has_area(boxes_xyxy)[:, None]
    anchor_ids, class_ids = np.nonzero(wanted)
    return boxes_xyxy[anchor_ids], scores[anchor_ids, class_ids], class_ids.astype(np.int32)


def decode_yolo(
    output: NDArray[np.float32],
    *,
    channels_first: bool,
    has_objectness: bool,
    min_score: float,
    class_mask: NDArray[np.bool_] | None = None,
) -> Detections:
    """Turn a YOLO head's output into boxes of the model's input (not of the frame, and not clipped).

    `output` is (4 + classes, n) with `channels_first` (YOLOv8 and 11), otherwise (n, 4 + classes): centre x,
    centre y, width, height in model pixels, then, with `has_objectness`, the objectness, then the scores of
    the classes, sigmoid already applied.

    An anchor carries one label, its best class; the lowest id among equals; NaN is no score. Its score is
    that class's, times the objectness in float32. Anchors are answered in their order, if the score is at
    least `min_score` (rounded to float32), the class is in `class_mask` (true means wanted; none: all; a mask
    never changes an anchor's label), and the float32 box is finite with a positive width and height.

    Returns boxes_xyxy (m, 4) float32, scores (m,) float32, class_ids (m,) int32.
    """
    rows = output.T if channels_first else output
    objectness = rows[:, 4] if has_objectness else None
    class_scores = rows[:, 4 + has_objectness :]
    return _label_anchors(rows[:, :4].astype(np.float64), objectness, class_scores, min_score, class_mask)


def decode_yolox(
    output: NDArray[np.float32],
    input_hw: tuple[int, int],
    min_score: float,
    *,
    class_mask: NDArray[np.bool_] | None = None,
) -> Detections:
    """Turn YOLOX's raw output into boxes of the model's input (Ge et al. 2021).

    `output` is (n, 5 + classes): tx, ty, tw, th, objectness, class scores, sigmoid already applied to the
    last two. The anchors are the cells of the grids with strides 8, 16 and 32 px over `input_hw`, one grid
    after the other, each row by row. The centre is ``(t + cell) * stride``, the size ``exp(t) * stride``.
    The rest is `decode_yolo`'s with objectness.
    """
    cells = [
        (column, row, stride)
        for stride in YOLOX_STRIDES
        for row in range(input_hw[0] // stride)
        for column in range(input_hw[1] // stride)
    ]
    column_row, strides = np.array(cells, np.float64)[:, :2], np.array(cells, np.float64)[:, 2:]
    boxes_cxcywh = output[:, :4].astype(np.float64)
    with np.errstate(over="ignore"):
        boxes_cxcywh[:, :2] = (boxes_cxcywh[:, :2] + column_row) * strides
        boxes_cxcywh[:, 2:] = np.exp(boxes_cxcywh[:, 2:]) * strides
    return _label_anchors(boxes_cxcywh, output[:, 4], output[:, 5:], min_score, class_mask)


def nms(
    boxes_xyxy: NDArray[np.float32],
    scores: NDArray[np.float32],
    class_ids: NDArray[np.int32],
    iou_threshold: float,
    *,
    class_agnostic: bool = False,
    max_detections: int = 300,
    max_candidates: int = 4096,
) -> NDArray[np.int64]:
    """Keep the best of boxes that overlap (greedy non-maximum suppression), for each class or over all.

    Boxes are taken by score descending, equal scores by index ascending. A box is suppressed when its IoU
    with a box kept before, of the same class unless `class_agnostic`, is greater than `iou_threshold` (equal
    is kept). IoU is ``intersection / (area + area - intersection)`` in float64, divided; a box without a
    positive width and height has area 0 and IoU 0. Boxes whose score is NaN or that hold NaN or infinity are
    dropped. It ends at `max_detections` kept boxes or `max_candidates` boxes looked at, dropped ones not
    counted.

    Returns the indices of the kept boxes, int64, by score descending.
    """
    with np.errstate(over="ignore"):
        usable = np.isfinite(boxes_xyxy).all(axis=1) & ~np.isnan(scores)
    order = [int(index) for index in np.argsort(-scores, kind="stable") if usable[index]]
    kept: list[int] = []
    for index in order[:max_candidates]:
        if len(kept) == max_detections:
            break
        rivals = [k for k in kept if class_agnostic or class_ids[k] == class_ids[index]]
        if all(_iou(boxes_xyxy[index], boxes_xyxy[rival]) <= iou_threshold for rival in rivals):
            kept.append(index)
    return np.array(kept, np.int64)


def spin_cpu(ms: float) -> int:
    """Use `ms` milliseconds of the calling thread's own processor time; return the nanoseconds used."""
    start = now = time.thread_time_ns()
    while now - start < ms * 1e6:
        now = time.thread_time_ns()
    return now - start


def spin_wall(ms: float) -> int:
    """Be busy until `ms` milliseconds have passed on the monotonic clock; return the nanoseconds passed."""
    start = now = time.monotonic_ns()
    while now - start < ms * 1e6:
        now = time.monotonic_ns()
    return now - start


def _label_anchors(
    boxes_cxcywh: NDArray[np.float64],
    objectness: NDArray[np.float32] | None,
    class_scores: NDArray[np.float32],
    min_score: float,
    class_mask: NDArray[np.bool_] | None,
) -> Detections:
    is_number = ~np.isnan(class_scores)
    best = np.where(is_number, class_scores, np.float32(-np.inf)).max(axis=1, keepdims=True)
    class_ids = (is_number & (class_scores == best)).argmax(axis=1)
    # Without any number this is NaN, whose product with an objectness still reaches no score.
    scores = np.take_along_axis(class_scores, class_ids[:, None], axis=1)[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        if objectness is not None:
            scores = scores * objectness
        centres, halves = boxes_cxcywh[:, :2], boxes_cxcywh[:, 2:] / 2
        boxes_xyxy = np.concatenate([centres - halves, centres + halves], axis=1).astype(np.float32)
        wanted = (scores >= np.float32(min_score)) & np.isfinite(boxes_xyxy).all(axis=1)
    wanted &= _has_area(boxes_xyxy)
    if class_mask is not None:
        wanted &= class_mask.astype(bool)[class_ids]
    return boxes_xyxy[wanted], scores[wanted], class_ids[wanted].astype(np.int32)


def _has_area(boxes_xyxy: NDArray[np.float32]) -> NDArray[np.bool_]:
    wide: NDArray[np.bool_] = boxes_xyxy[:, 2] > boxes_xyxy[:, 0]
    return wide & (boxes_xyxy[:, 3] > boxes_xyxy[:, 1])


def _iou(first: ArrayLike, second: ArrayLike) -> float:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    width, height = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]))
    if width * height == 0:
        return 0.0
    areas = [np.prod(np.maximum(0, box[2:] - box[:2])) for box in (a, b)]
    return float(width * height / (areas[0] + areas[1] - width * height))
