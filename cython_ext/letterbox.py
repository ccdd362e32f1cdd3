"""Where a letterboxed frame lies in the model's input: the record that leads boxes back to the frame."""

from typing import NamedTuple

from cython_ext.arrays import expect_size


class Letterbox(NamedTuple):
    """What was really applied to a frame, in whole pixels.

    A point of the frame lies at ``frame * scale + pad`` in the model's input, for each axis; coordinates are
    continuous, so that the frame spans 0 to its width and pixel centres lie at halves.
    """

    frame_wh: tuple[int, int]
    """Size of the frame, px."""
    model_wh: tuple[int, int]
    """Size of the model's input, px."""
    scaled_wh: tuple[int, int]
    """Size of the frame's picture within the model's input, px."""
    pad_xy: tuple[int, int]
    """Where that picture begins: columns left of it, rows above it."""
    scale_xy: tuple[float, float]
    """``scaled_wh / frame_wh`` for each axis; rounding makes the two differ."""


def place_letterbox(
    frame_wh: tuple[int, int], model_wh: tuple[int, int], *, centred: bool = True
) -> Letterbox:
    """Fit a frame into a model's input and keep its aspect.

    The common scale is ``min(model_w / frame_w, model_h / frame_h)`` in float64; each scaled length is
    ``round(length * scale)``, halves to even, but at least 1 and at most the model's. Centred, the pad before
    the picture is ``(model - scaled) // 2``, so that an odd rest goes to the right and below (the YOLO
    convention); otherwise the picture lies at the top left (YOLOX).

    Raises:
        TypeError, ValueError: a size is not two integers of at least 1.

    """
    frame_w, frame_h = expect_size("frame_wh", frame_wh)
    model_w, model_h = expect_size("model_wh", model_wh)
    scale = min(model_w / frame_w, model_h / frame_h)
    scaled_w = min(max(round(frame_w * scale), 1), model_w)
    scaled_h = min(max(round(frame_h * scale), 1), model_h)
    pad_xy = ((model_w - scaled_w) // 2, (model_h - scaled_h) // 2) if centred else (0, 0)
    return Letterbox(
        (frame_w, frame_h),
        (model_w, model_h),
        (scaled_w, scaled_h),
        pad_xy,
        (scaled_w / frame_w, scaled_h / frame_h),
    )
