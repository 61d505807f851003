"""The trained net and the real images of ``partita demo``: hand-written digits.

Source of the images: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits" (UCI
Machine Learning Repository, 1998), the 1,797 images that scikit-learn carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from partita.errors import BackendUnavailableError, UsageError

SEED = 1998
"""Of the split; the training script has its own."""
INSTALLED = Path(__file__).parent / "models" / "digits.onnx"
REPOSITORY = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


@final
@dataclass(frozen=True, eq=False)
class Split:
    """The digits in two parts without a common image.

    Attributes:
        images: float32 [n, 1, 8, 8], pixels from 0 (paper) to 16 (ink), for training.
        labels: int64 [n], 0 to 9, for training.
        held_out_images: float32 [m, 1, 8, 8]; one third, rounded down.
        held_out_labels: int64 [m].
    """

    images: np.ndarray[Any, np.dtype[np.float32]]
    labels: np.ndarray[Any, np.dtype[np.int64]]
    held_out_images: np.ndarray[Any, np.dtype[np.float32]]
    held_out_labels: np.ndarray[Any, np.dtype[np.int64]]


def model_path() -> Path:
    """Returns the path of ``digits.onnx``: the copy in the wheel, or the one in the repository.

    Raises:
        UsageError: Neither is there.
    """
    for path in (INSTALLED, REPOSITORY):
        if path.is_file():
            return path
    raise UsageError(
        f"the demo's model is neither at {INSTALLED} nor at {REPOSITORY}; reinstall partita, or "
        "run 'python examples/digits/train.py' in a checkout of its repository"
    )


def held_out() -> tuple[np.ndarray[Any, np.dtype[np.float32]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Returns the images and labels that the model was not trained on; see :class:`Split`.

    Raises:
        BackendUnavailableError: scikit-learn, which carries the images, is not installed.
    """
    parts = split()
    return parts.held_out_images, parts.held_out_labels


def split() -> Split:
    """Returns the digits, two thirds to train on and one third to measure with, always the same.

    Raises:
        BackendUnavailableError: scikit-learn, which carries the images, is not installed.
    """
    pixels, labels = _digits()
    # RandomState, because numpy promises its stream for good; a Generator's may change.
    order = np.random.RandomState(SEED).permutation(len(labels))
    images = pixels.reshape(-1, 1, 8, 8).astype(np.float32)[order]
    labels = labels.astype(np.int64)[order]
    first = len(labels) - len(labels) // 3
    return Split(images[:first], labels[:first], images[first:], labels[first:])


def _digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    try:
        from sklearn import datasets  # pyright: ignore
    except ImportError as error:
        raise BackendUnavailableError(
            "the digits are read from scikit-learn, which is not installed: "
            'pip install "partita[demo]"'
        ) from error
    return cast("tuple[Any, Any]", datasets.load_digits(return_X_y=True))  # pyright: ignore
