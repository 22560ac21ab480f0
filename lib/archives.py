"""Real data in the formats in which they are published: handwritten digits, CIFAR-10 and film reviews.

Archives are read from a local folder, as streams: nothing is ever extracted to disk. Only ``fetch=True`` uses the
network. A file that is there is not checked against the published hash, since a mirror may pack the same data anew; its
structure is checked. One with fewer images or reviews than published is read as it is: the shapes tell.
"""

import gzip
import re
import tarfile
import zlib
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

CIFAR10 = "cifar-10-binary.tar.gz"
IMDB = "aclImdb_v1.tar.gz"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SOURCES = {  # address and published MD5
    CIFAR10: ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    IMDB: ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a"),
    "train-images-idx3-ubyte.gz": (MNIST + "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte.gz": (MNIST + "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte.gz": (MNIST + "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte.gz": (MNIST + "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
}
FOLDER = "data"

RECORD = 1 + 3 * 32 * 32  # bytes of a CIFAR-10 image: its label, then its planes of red, green and blue
BATCH = 10_000 * RECORD
BATCHES = [f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)]
TEST_BATCH = "cifar-10-batches-bin/test_batch.bin"
NAMES = "cifar-10-batches-bin/batches.meta.txt"

REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos)/([0-9]{1,9})_([0-9]{1,2})\.txt")
STARS = (range(1, 5), range(7, 11))  # what a negative and a positive review gave, says the archive's README

# What may be unpacked at most, in bytes: a small archive can be made to unpack to a terabyte.
SMALL = 2**16  # a review, the names of the classes, a header
REST = 2**22  # zeros behind the end of an archive
UNPACKED = 2**30  # a whole archive, a few times what the larger one holds


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


class LabelledTexts(NamedTuple):
    """Texts and their labels.

    train_texts, test_texts : list of str.
    train_labels, test_labels : int64, shape (N,), places in ``classes``.
    classes : tuple of str.
    """

    train_texts: list[str]
    train_labels: Tensor
    test_texts: list[str]
    test_labels: Tensor
    classes: tuple[str, ...]


def images(name, folder=None, fetch=False):
    """Labelled images, divided into those to train on and those to test on.

    Sources: the digits come with scikit-learn (UCI, optical recognition of handwritten digits); MNIST is by LeCun,
    Cortes and Burges; CIFAR-10 by Krizhevsky (2009).

    Parameters
    ----------
    name : {"digits", "mnist", "cifar10"}
        1797 of 8 x 8 pixels, which need neither folder nor fetch; 70 000 of 28 x 28; 60 000 in colour of 32 x 32.
    folder : path, optional
        Where the archives lie, in the form in which they are published; by default ``data`` in the current directory.
    fetch : bool
        Fetch what is not in the folder, and check its hash.

    Returns
    -------
    LabelledImages
        Of the digits, the last fifth of each class is for testing: neighbours in that file are mostly by one hand, and
        few writers so have a share in both parts.

    Raises
    ------
    ValueError
        If the name is unknown, an archive is damaged, or a fetched one does not have the published hash.
    FileNotFoundError
        If an archive is not in the folder, and ``fetch`` is false.
    ConnectionError
        If it cannot be fetched, or not be written to the folder.
    """
    if name == "digits":
        return _digits()
    if name not in ("mnist", "cifar10"):
        raise ValueError(f"name {name!r} is unknown: use digits, mnist or cifar10")
    folder = Path(FOLDER if folder is None else folder)
    return _mnist(folder, fetch) if name == "mnist" else _cifar10(folder, fetch)


def reviews(folder=None, fetch=False, limit=None):
    """Film reviews from IMDb, negative and positive ones, with the markup (``<br />``) that they have.

    Source: Maas et al., Learning word vectors for sentiment analysis (ACL 2011).

    Parameters
    ----------
    folder, fetch
        As in :func:`images`.
    limit : int, optional
        Return at most so many reviews of each class in each part, those with the lowest numbers; else 12 500.

    Returns
    -------
    LabelledTexts
        In the order of the reviews' numbers, in which the classes alternate.

    Raises
    ------
    ValueError, FileNotFoundError, ConnectionError
        As in :func:`images`; ValueError also for a limit below 1.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"limit is {limit!r}: give a whole number from 1, or None for all reviews")
    path = _local(IMDB, Path(FOLDER if folder is None else folder), fetch)
    with _reading(path):
        found = _found_reviews(path)
        parts = [_part(found[part], part, limit) for part in ("train", "test")]
    return LabelledTexts(*parts[0], *parts[1], ("negative", "positive"))


def _digits():
    data = load_digits()
    values, labels = torch.tensor(data.images / 16, dtype=torch.float32)[:, None], torch.tensor(data.target).long()
    test = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(10):
        members = torch.nonzero(labels == label)[:, 0]
        test[members[-(len(members) // 5) :]] = True
    return LabelledImages(values[~test], labels[~test], values[test], labels[test], _ten_digits())


def _ten_digits():
    return tuple(str(digit) for digit in range(10))


def _mnist(folder, fetch):
    parts = []
    for part, most in (("train", 60_000), ("t10k", 10_000)):
        files = (f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz")
        pictures, names = (_local(file, folder, fetch) for file in files)
        with _reading(pictures):
            values = _scaled(_idx(pictures, most, (28, 28))[:, None])
        with _reading(names):
            labels = _labels(_idx(names, most, ()))
            if len(labels) != len(values):
                raise _Refused(f"has {len(labels)} labels for the {len(values)} images of {pictures.name}")
        parts += [values, labels]
    return LabelledImages(*parts, _ten_digits())


def _idx(path, most, item):
    """Array (count, *item) of bytes in an idx file: big-endian numbers, namely magic, count and item's shape, then all.

    The magic number's lower bytes are the type, 8 for bytes, and the number of dimensions.
    """
    start = 4 * (2 + len(item))
    longest = start + most * int(np.prod(item))
    with gzip.open(path) as file:
        content = file.read(longest + 1)  # reaches the end, where gzip compares its checksum, unless it is too long
    if len(content) > longest:
        raise _Refused(f"unpacks to more than the {longest} bytes of {most} items")
    if len(content) < start:
        raise _Refused(f"has {len(content)} of the {start} bytes of its header")
    magic, count, *shape = np.frombuffer(content[:start], ">u4").tolist()
    if magic != 0x801 + len(item):
        raise _Refused(f"begins with the number {magic} instead of {0x801 + len(item)}")
    if tuple(shape) != item:
        raise _Refused(f"has images of {shape[0]} x {shape[1]} pixels instead of {item[0]} x {item[1]}")
    if count == 0 or len(content) != start + count * int(np.prod(item)):
        raise _Refused(f"announces {count} items, which does not fit the {len(content) - start} bytes that follow")
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8).view(count, *item)


def _cifar10(folder, fetch):
    aside = ""
    if (folder / "cifar-10-python.tar.gz").is_file():
        aside = " (cifar-10-python.tar.gz does not serve: it is made of pickles, and to unpickle is to run their code)"
    path = _local(CIFAR10, folder, fetch, aside)
    sizes = dict.fromkeys([*BATCHES, TEST_BATCH], BATCH) | {NAMES: SMALL}
    with _reading(path):
        found = _unique(_members(path, sizes.get))
        for member in sizes:
            if member not in found:
                raise _Refused(f"lacks the member {member}")
        train = torch.cat([_records(found, member) for member in BATCHES])
        parts = [part for records in (train, _records(found, TEST_BATCH)) for part in _split(records)]
        classes = tuple(_text(NAMES, found[NAMES]).split())
        if len(classes) != 10:
            raise _Refused(f"names {len(classes)} classes instead of 10 in {NAMES}")
    return LabelledImages(*parts, classes)


def _records(found, member):
    content = found[member]
    if not content or len(content) % RECORD:
        raise _Refused(f"has {len(content)} bytes in {member}, which are no records of {RECORD}")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, RECORD)


def _split(records):
    return _scaled(records[:, 1:].reshape(-1, 3, 32, 32)), _labels(records[:, 0])


def _scaled(values):
    return values.to(torch.float32).div_(255)


def _labels(values):
    if values.max() > 9:
        raise _Refused(f"has the label {values.max().item()}, above 9")
    return values.long()


def _found_reviews(path):
    """Return {"train": {(number, label): text}, "test": ...}."""
    found = {"train": {}, "test": {}}
    for member, content in _members(path, lambda name: SMALL if REVIEW.fullmatch(name) else None):
        part, folder, number, stars = REVIEW.fullmatch(member).groups()
        label = int(folder == "pos")
        if int(stars) not in STARS[label]:
            raise _Refused(f"calls {member} {('negative', 'positive')[label]}, which has {stars} of 10 stars")
        if (int(number), label) in found[part]:
            raise _Refused(f"has review {number} of {part}/{folder} twice")
        found[part][int(number), label] = _text(member, content)
    return found


def _part(texts, part, limit):
    """Texts and labels by number; keys are (number, label)."""
    chosen = []
    for label, folder in enumerate(("neg", "pos")):
        keys = sorted(key for key in texts if key[1] == label)
        if not keys:
            raise _Refused(f"has no review in aclImdb/{part}/{folder}")
        chosen += keys[:limit]
    chosen.sort()
    return [texts[key] for key in chosen], torch.tensor([label for _, label in chosen])


def _text(member, content):
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Refused(f"has bytes in {member}, the first at {error.start}, that are no UTF-8") from None


class _Refused(Exception):
    """Says what is wrong with an archive; :func:`_reading` makes the sentence."""


@contextmanager
def _reading(path):
    """Name the file and the remedy in what is raised within about its content."""
    try:
        yield
    except _Refused as refusal:
        what = str(refusal)
    # What gzip and tarfile raise on bytes that are none of theirs; tarfile uses int() and recursion on headers.
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError, ValueError, RecursionError):
        what = "cannot be unpacked, it is cut off or damaged"
    else:
        return
    raise ValueError(f"{path} {what}: delete it and fetch it again, by fetch=True or from {SOURCES[path.name][0]}")


def _local(file, folder, fetch, aside=""):
    """Path of an archive in the folder, which is fetched if it is not there and ``fetch`` is true."""
    path, (address, md5) = folder / file, SOURCES[file]
    if path.is_file():
        return path
    if not fetch:
        raise FileNotFoundError(
            f"{file} is not in the folder {folder}{aside}: put it there from {address}, or pass"
            " fetch=True, which fetches it, as `make data` does"
        )
    by_hand = "fetch it yourself and put it into that folder"
    import pooch  # here, because its progress bar warns where it is imported in a notebook

    try:  # pooch writes to another name, and moves the file only when its hash is right
        pooch.retrieve(address, f"md5:{md5}", file, folder)
    except OSError as error:
        answer = getattr(error, "response", None)
        why = type(error).__name__ if answer is None else f"status {answer.status_code}"
        problem = ConnectionError(f"{address} could not be fetched into {folder} ({why}): try again, or {by_hand}")
        raise problem from None
    except ValueError:
        raise ValueError(
            f"{address} does not have the published MD5 {md5}, nothing was put into {folder}: try again, or {by_hand}"
        ) from None
    return path


class _Header(tarfile.TarInfo):
    """A header that is refused where tarfile takes it for the archive's end, or reads as much as it says."""

    @classmethod
    def frombuf(cls, *arguments):
        try:
            header = super().frombuf(*arguments)
        except tarfile.EOFHeaderError:
            raise
        except tarfile.HeaderError as error:
            raise _Refused(f"has a member that is cut off or damaged ({error})") from None
        if header.type == tarfile.GNUTYPE_SPARSE:  # its map would be read now, at any length
            raise _Refused(f"has a member {header.name!r} that is neither a file nor a folder (it has holes)")
        if header.type not in tarfile.REGULAR_TYPES and header.size > SMALL:
            raise _Refused(f"has a header of {header.size} bytes")
        return header


class _Bounded:
    """A file that can only be read, and only so far."""

    def __init__(self, file, limit):
        self.file, self.left = file, limit

    def read(self, size):
        content = self.file.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise _Refused("unpacks to more than any of these data sets has")
        return content


def _members(path, size_of):
    """Yield (name, bytes) of the wanted members of a tar.gz in their order, and refuse an archive with unsafe ones.

    Parameters
    ----------
    path : Path
    size_of : callable
        From a member's name to its largest size, None if it is not wanted.
    """
    with (
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=_Bounded(unpacked, UNPACKED), mode="r|", tarinfo=_Header) as tar,
    ):
        for member in tar:
            name = _safe_name(member)
            wanted = size_of(name)
            largest = UNPACKED if wanted is None else wanted
            if not 0 <= member.size <= largest:
                raise _Refused(f"announces {member.size} bytes of {name}, not 0 to {largest}")
            if wanted is None or member.isdir():
                continue
            yield name, tar.extractfile(member).read()
        # The loop stops where the archive says that it ends; gzip's checksum stands behind that.
        rest = tar.fileobj.read(REST)
        if len(rest) == REST or rest.strip(b"\0"):
            raise _Refused("goes on behind its end")


def _safe_name(member):
    """Return the name, without ./ in front, of what is an ordinary file or folder with a place below the archive's."""
    parts = PureWindowsPath(member.name)  # knows both kinds of slash, and drives
    if parts.anchor or ".." in parts.parts:
        raise _Refused(f"has a member {member.name!r} outside its own folder")
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise _Refused(f"has a member {member.name!r} that is neither a file nor a folder (a link or a device)")
    return str(PurePosixPath(member.name))


def _unique(members):
    found = {}
    for name, content in members:
        if name in found:
            raise _Refused(f"has the member {name} twice")
        found[name] = content
    return found
