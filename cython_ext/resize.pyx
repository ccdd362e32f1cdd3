"""A frame's image into a model's input in one pass over its pixels, and boxes back to the frame."""

from libc.math cimport floor, isnan

import numpy as np

from cython_ext.arrays import expect_array, expect_channels, expect_image, expect_out, expect_size
from cython_ext.letterbox import place_letterbox

cdef extern from "resize_rows.h" nogil:
    void blend_rows(
        const unsigned char* upper, const unsigned char* lower, float weight, Py_ssize_t samples, float* mixed
    )


cdef void linear_taps(Py_ssize_t source, Py_ssize_t[::1] taps, float[::1] weights) noexcept nogil:
    """For each output pixel the first of its two source pixels, and the second one's weight."""
    cdef Py_ssize_t i, first
    cdef double position
    for i in range(taps.shape[0]):
        position = (i + 0.5) * source / taps.shape[0] - 0.5
        first = <Py_ssize_t>floor(position)
        weights[i] = <float>(position - first)
        if first < 0:
            first = 0
            weights[i] = 0
        taps[i] = first


cdef void resize_into(
    const unsigned char[:, ::1] rows,
    const Py_ssize_t[::1] taps_y,
    const float[::1] weights_y,
    const Py_ssize_t[::1] taps_x,
    const float[::1] weights_x,
    const float* scale,
    const float* offset,
    bint bgr,
    float[::1] mixed,
    float[:, :, ::1] planes,
    Py_ssize_t left,
    Py_ssize_t top,
) noexcept nogil:
    """Write the image, resized and normalised, to `planes` from (top, left) on.

    `rows` are the image's rows with the channels side by side. `mixed` holds one blended row of them and the
    last pixel once more, so that it has a right neighbour, too. Rows come first because blending whole rows
    is what compilers turn into vector code.
    """
    cdef Py_ssize_t samples = rows.shape[1]
    cdef Py_ssize_t first = 2 if bgr else 0, third = 0 if bgr else 2
    cdef float scale_0 = scale[first], scale_1 = scale[1], scale_2 = scale[third]
    cdef float offset_0 = offset[first], offset_1 = offset[1], offset_2 = offset[third]
    cdef Py_ssize_t x, y, k, upper, lower
    cdef float weight, value
    for y in range(taps_y.shape[0]):
        upper = taps_y[y]
        lower = min(upper + 1, rows.shape[0] - 1)
        weight = weights_y[y]
        blend_rows(&rows[upper, 0], &rows[lower, 0], weight, samples, &mixed[0])
        for k in range(3):
            mixed[samples + k] = mixed[samples - 3 + k]
        for x in range(taps_x.shape[0]):
            k = taps_x[x] * 3
            weight = weights_x[x]
            value = mixed[k] + (mixed[k + 3] - mixed[k]) * weight
            planes[first, top + y, left + x] = value * scale_0 + offset_0
            value = mixed[k + 1] + (mixed[k + 4] - mixed[k + 1]) * weight
            planes[1, top + y, left + x] = value * scale_1 + offset_1
            value = mixed[k + 2] + (mixed[k + 5] - mixed[k + 2]) * weight
            planes[third, top + y, left + x] = value * scale_2 + offset_2


cdef void fill_around(
    float[:, :, ::1] planes,
    Py_ssize_t left,
    Py_ssize_t top,
    Py_ssize_t width,
    Py_ssize_t height,
    const float* padding,
) noexcept nogil:
    """Write `padding` to all of `planes` but the picture that the kernel above writes."""
    cdef Py_ssize_t channel, x, y
    for channel in range(3):
        for y in range(planes.shape[1]):
            if top <= y < top + height:
                for x in range(left):
                    planes[channel, y, x] = padding[channel]
                for x in range(left + width, planes.shape[2]):
                    planes[channel, y, x] = padding[channel]
            else:
                for x in range(planes.shape[2]):
                    planes[channel, y, x] = padding[channel]


cdef void unletterbox_into(
    const float[:, ::1] boxes,
    const double* pad,
    const double* scale,
    const double* limit,
    float[:, ::1] frame_boxes,
) noexcept nogil:
    """Lead each box back to the frame; all four of `pad`, `scale`, `limit` are x, y."""
    cdef Py_ssize_t i, axis
    cdef bint is_number
    cdef double low, high
    for i in range(boxes.shape[0]):
        is_number = not (isnan(boxes[i, 0]) or isnan(boxes[i, 1]) or isnan(boxes[i, 2]) or isnan(boxes[i, 3]))
        for axis in range(2):
            low = high = 0
            if is_number:
                low = min(max((boxes[i, axis] - pad[axis]) / scale[axis], 0.0), limit[axis])
                high = min(max((boxes[i, 2 + axis] - pad[axis]) / scale[axis], low), limit[axis])
            frame_boxes[i, axis] = <float>low
            frame_boxes[i, 2 + axis] = <float>high


def resize_to_tensor(image, out_hw, scale, offset, *, bgr=False, out=None):
    """Resize an image to a model's input, not keeping its aspect; one pass, bilinear, not antialiased.

    Equals ``cv2.resize`` (INTER_LINEAR) of the float32 image; `reference.resize` defines it.

    Args:
        image: uint8 (height, width, 3), RGB, C-contiguous; only read.
        out_hw: height and width of the input, px.
        scale, offset: one number, or three in the tensor's channel order; ``value * scale + offset``.
        bgr: whether the tensor's channels are blue, green, red.
        out: float32 (1, 3, out_h, out_w), C-contiguous, to write to instead of a new array.

    Returns:
        float32 (1, 3, out_h, out_w): `out`, if given.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape or layout, named in the message.

    Releases the GIL.

    """
    expect_image("image", image)
    height, width = expect_size("out_hw", out_hw)
    return _resize(image, out, (height, width), (0, 0, width, height), 0, scale, offset, bgr)


def letterbox_to_tensor(image, out_hw, pad_value, scale, offset, *, bgr=False, centred=True, out=None):
    """Resize an image to a model's input, keeping its aspect, and fill the rest; else as `resize_to_tensor`.

    Args:
        image: uint8 (height, width, 3), RGB, C-contiguous; only read.
        out_hw: height and width of the input, px.
        pad_value: the pixel value to fill with, before scale and offset (YOLO: 114).
        scale, offset: one number, or three in the tensor's channel order; ``value * scale + offset``.
        bgr: whether the tensor's channels are blue, green, red.
        centred: whether the picture lies in the middle (YOLO) or at the top left (YOLOX).
        out: float32 (1, 3, out_h, out_w), C-contiguous, to write to instead of a new array.

    Returns:
        float32 (1, 3, out_h, out_w), which is `out`, if given; and where the picture lies in it.

    Raises:
        TypeError, ValueError: an argument of another type, dtype, shape or layout, named in the message.

    Releases the GIL. Source: the preprocessing of YOLOv5 to YOLO11, with the record of what was applied.

    """
    expect_image("image", image)
    out_h, out_w = expect_size("out_hw", out_hw)
    placed = place_letterbox((image.shape[1], image.shape[0]), (out_w, out_h), centred=centred)
    picture = placed.pad_xy + placed.scaled_wh
    tensor = _resize(image, out, (out_h, out_w), picture, pad_value, scale, offset, bgr)
    return tensor, placed


def _resize(image, out, out_hw, picture, pad_value, scale, offset, bgr):
    """Write the image to its place `picture` (left, top, width, height) in a tensor, and fill the rest."""
    shape = (1, 3, *out_hw)
    if out is None:
        out = np.empty(shape, np.float32)
    else:
        expect_out("out", out, np.float32, shape)
    cdef Py_ssize_t left, top, width, height
    left, top, width, height = picture
    cdef const unsigned char[:, ::1] rows = image.reshape(image.shape[0], -1)
    cdef float[:, :, ::1] planes = out[0]
    cdef float[3] scales = expect_channels("scale", scale)
    cdef float[3] offsets = expect_channels("offset", offset)
    cdef float[3] padding
    cdef float value = expect_channels("pad_value", pad_value)[0]
    cdef Py_ssize_t channel
    for channel in range(3):
        padding[channel] = value * scales[channel] + offsets[channel]
    cdef Py_ssize_t[::1] taps_x = np.empty(width, np.intp), taps_y = np.empty(height, np.intp)
    cdef float[::1] weights_x = np.empty(width, np.float32), weights_y = np.empty(height, np.float32)
    cdef float[::1] mixed = np.empty(rows.shape[1] + 3, np.float32)
    cdef bint blue_first = bgr
    with nogil:
        linear_taps(rows.shape[1] // 3, taps_x, weights_x)
        linear_taps(rows.shape[0], taps_y, weights_y)
        resize_into(
            rows, taps_y, weights_y, taps_x, weights_x, scales, offsets, blue_first, mixed, planes, left, top
        )
        fill_around(planes, left, top, width, height, padding)
    return out


def unletterbox(boxes_xyxy, letterbox):
    """Lead boxes from a model's input back to the frame, by what was really applied; clipped to the frame.

    Args:
        boxes_xyxy: float32 (n, 4), model px, C-contiguous; only read.
        letterbox: the `Letterbox` that `letterbox_to_tensor` returned.

    Returns:
        float32 (n, 4), frame px, 0 <= x1 <= x2 <= width and 0 <= y1 <= y2 <= height; a row that held NaN is
        zeros.

    Raises:
        TypeError, ValueError: boxes of another type, dtype, shape or layout.

    Releases the GIL.

    """
    expect_array("boxes_xyxy", boxes_xyxy, np.float32, ("n", 4))
    frame_boxes = np.empty_like(boxes_xyxy)
    cdef const float[:, ::1] boxes = boxes_xyxy
    cdef float[:, ::1] result = frame_boxes
    cdef double[2] pad = letterbox.pad_xy
    cdef double[2] scale = letterbox.scale_xy
    cdef double[2] limit = letterbox.frame_wh
    with nogil:
        unletterbox_into(boxes, pad, scale, limit, result)
    return frame_boxes
