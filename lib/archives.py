"""Load published data sets: the handwritten digits that scikit-learn carries, and archives of MNIST and CIFAR-10.

Archives are read from a local folder, and only if they are the published files, by their MD5. They are read as streams:
nothing is ever extracted to disk. Only ``fetch=True`` uses the network.
"""

import gzip
import hashlib
import tarfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks

CIFAR10 = "cifar-10-binary.tar.gz"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SOURCES = {  # address and published MD5
    CIFAR10: ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "train-images-idx3-ubyte.gz": (MNIST + "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte.gz": (MNIST + "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte.gz": (MNIST + "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte.gz": (MNIST + "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
}
FOLDER = "data"
DIGITS = tuple("0123456789")
RECORD = 1 + 3 * 32 * 32  # bytes of a CIFAR-10 image: its label, then its planes of red, green and blue


class LabelledImages(NamedTuple):
    """Images with values from 0 to 1 in float32, half the memory of the float64 that theory needs, and their labels.

    train_images, test_images : shape (N, channels, height, width).
    train_labels, test_labels : int64, shape (N,), places in ``classes``.
    classes : tuple of str.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]


def images(name, folder=FOLDER, fetch=False):
    """Labelled images, divided into those to train on and those to test on.

    Sources: the digits are those of :func:`digits`; MNIST is by LeCun, Cortes and Burges; CIFAR-10 by Krizhevsky
    (2009).

    Parameters
    ----------
    name : {"digits", "mnist", "cifar10"}
        1797 of 8 x 8 pixels, which need neither folder nor fetch; 70 000 of 28 x 28; 60 000 in colour of 32 x 32.
    folder : path
        Where the archives lie, in the form in which they are published.
    fetch : bool
        Fetch what is not in the folder.

    Returns
    -------
    LabelledImages

    Raises
    ------
    ValueError
        If the name is unknown, or an archive, found or fetched, is not the published one.
    FileNotFoundError
        If an archive is not in the folder, and ``fetch`` is false.
    ConnectionError
        If it cannot be fetched, or not be written to the folder.
    """
    if name not in ("digits", "mnist", "cifar10"):
        raise ValueError(f"name {name!r} is unknown: use digits, mnist or cifar10")
    if name == "digits":
        return digits()
    return _mnist(Path(folder), fetch) if name == "mnist" else _cifar10(Path(folder), fetch)


def digits():
    """Handwritten digits of 8 x 8 pixels from scikit-learn, the last fifth of each class for testing.

    Neighbours in that file are mostly by one hand, and few writers so have a share in both parts. Source: UCI, optical
    recognition of handwritten digits.

    Returns
    -------
    LabelledImages

    Examples
    --------
    >>> images = digits()
    >>> images.train_images.shape, images.test_images.shape
    (torch.Size([1442, 1, 8, 8]), torch.Size([355, 1, 8, 8]))
    """
    from sklearn.datasets import load_digits  # here: it takes a second, and most who import this module need none

    data = load_digits()
    values = torch.tensor(data.images / 16, dtype=torch.float32)[:, None]
    labels = torch.tensor(data.target, dtype=torch.int64)
    test = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(10):
        members = torch.nonzero(labels == label)[:, 0]
        test[members[-(len(members) // 5) :]] = True
    return LabelledImages(values[~test], labels[~test], values[test], labels[test], DIGITS)


def _mnist(folder, fetch):
    """Files in the idx format: big-endian numbers (magic, count, and of images height and width), then all bytes."""
    parts = []
    for part in ("train", "t10k"):
        pixels, labels = (
            _bytes(gzip.decompress(_local(f"{part}-{kind}-ubyte.gz", folder, fetch).read_bytes())[start:])
            for kind, start in (("images-idx3", 16), ("labels-idx1", 8))
        )
        parts += [_scaled(pixels.view(-1, 1, 28, 28)), labels.long()]
    return LabelledImages(*parts, DIGITS)


def _cifar10(folder, fetch):
    with tarfile.open(_local(CIFAR10, folder, fetch), "r|gz") as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    parts = []
    for batches in ([f"data_batch_{k}" for k in range(1, 6)], ["test_batch"]):
        content = b"".join(found[f"cifar-10-batches-bin/{batch}.bin"] for batch in batches)
        records = _bytes(content).view(-1, RECORD)
        parts += [_scaled(records[:, 1:].reshape(-1, 3, 32, 32)), records[:, 0].long()]
    return LabelledImages(*parts, tuple(found["cifar-10-batches-bin/batches.meta.txt"].decode().split()))


def _bytes(content):
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _scaled(values):
    return values.to(torch.float32).div_(255)


def _local(file, folder, fetch):
    """Path of a published archive in the folder, which is fetched if it is not there and ``fetch`` is true."""
    path, (address, md5) = folder / file, SOURCES[file]
    if not path.is_file():
        if not checks.flag("fetch", fetch):
            raise FileNotFoundError(
                f"{file} is not in the folder {folder}: put it there from {address}, or pass"
                " fetch=True, which fetches it, as `make data` does"
            )
        _fetch(address, md5, path)
    with path.open("rb") as archive:
        found = hashlib.file_digest(archive, "md5").hexdigest()
    if found != md5:
        raise ValueError(
            f"{path} is not the published file, its MD5 is {found} instead of {md5}: delete it and fetch it again, by"
            f" fetch=True or from {address}"
        )
    return path


def _fetch(address, md5, path):
    by_hand = "fetch it yourself and put it into that folder"
    import pooch  # here, because its progress bar warns where it is imported in a notebook

    try:  # pooch writes to another name, and moves the file only when its hash is right
        pooch.retrieve(address, f"md5:{md5}", path.name, path.parent)
    except OSError as error:
        answer = getattr(error, "response", None)
        why = type(error).__name__ if answer is None else f"status {answer.status_code}"
        problem = ConnectionError(f"{address} could not be fetched into {path.parent} ({why}): try again, or {by_hand}")
        raise problem from None
    except ValueError:
        raise ValueError(
            f"{address} does not have the published MD5 {md5}, nothing was put into {path.parent}: try again, or"
            f" {by_hand}"
        ) from None
