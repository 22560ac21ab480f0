"""Real data, read from small archives of the published formats that the tests make; no test needs the internet."""

import gzip
import hashlib
import http.server
import io
import os
import random
import re
import socket
import subprocess
import sys
import tarfile
import threading
import zlib
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import seeded

from lib import archives
from lib.archives import BATCHES, CIFAR10, IMDB, NAMES, RECORD, TEST_BATCH, images, reviews

REMEDY = "delete it and fetch it again, by fetch=True or from https://"
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
MNIST = [
    f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
]  # in the order in which they are read
REVIEWS = {
    "aclImdb/train/neg/0_3.txt": "Dull.<br />\r\nVery.",
    "aclImdb/train/pos/0_9.txt": "Très bien: café 映画",
    "aclImdb/train/neg/10_1.txt": "no",
    "aclImdb/train/neg/2_4.txt": "meh",
    "aclImdb/train/pos/7_7.txt": "",
    "aclImdb/test/pos/0_10.txt": "superb",
    "aclImdb/test/neg/0_2.txt": "awful",
}


def random_images(count, *shape, seed=0):
    pixels = torch.randint(0, 256, (count, *shape), generator=seeded(seed), dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (count,), generator=seeded(seed + 1), dtype=torch.uint8)


def raw(pixels):
    return bytes(pixels.flatten().tolist())


def idx(array, magic=None, shape=None):
    numbers = [0x800 + array.ndim if magic is None else magic, *(array.shape if shape is None else shape)]
    return b"".join(number.to_bytes(4, "big") for number in numbers) + raw(array)


def write(path, content):
    path.write_bytes(content)
    return path


def mnist_files(folder, seed=0):
    """Write small MNIST files and return their arrays, in the order in which they are read."""
    arrays = [*random_images(5, 28, 28, seed=seed), *random_images(3, 28, 28, seed=seed + 2)]
    for file, array in zip(MNIST, arrays, strict=True):
        write(folder / file, gzip.compress(idx(array)))
    return arrays


def tar(members, extra=(), **options):
    """Bytes of an archive with a dict's members, and what ``extra`` has of TarInfo behind them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
        for header in extra:
            archive.addfile(header)
    return buffer.getvalue()


def special(name, kind, target=""):
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


def records(pixels, labels):
    return raw(torch.cat([labels[:, None], pixels.flatten(1)], dim=1))


def cifar_members(count=2):
    """Members of a small CIFAR-10 archive, in no order, and (pixels, labels) of its parts."""
    batches = [random_images(count, 3, 32, 32, seed=10 * k) for k in range(5)]
    test = random_images(count + 1, 3, 32, 32, seed=90)
    members = {
        "cifar-10-batches-bin/readme.html": b"<html>",
        NAMES: ("\n".join(CLASSES) + "\n\n").encode(),
        TEST_BATCH: records(*test),
    }
    members |= {name: records(*batch) for name, batch in zip(reversed(BATCHES), reversed(batches), strict=True)}
    return members, [torch.cat(part) for part in zip(*batches, strict=True)], test


def review_members(**changes):
    return {name: text.encode() for name, text in (REVIEWS | changes).items()} | {
        "aclImdb/README": b"read me",
        "aclImdb/imdb.vocab": b"the\n",
        "aclImdb/train/unsup/0_0.txt": b"\xff not labelled, not read",
        "aclImdb/train/pos/._0_9.txt": b"\x00\xff of another system",
    }


def put_reviews(folder, members=None, **options):
    return write(folder / IMDB, gzip.compress(tar(review_members() if members is None else members, **options)))


def put_cifar(folder, members, **options):
    return write(folder / CIFAR10, gzip.compress(tar(members, **options), compresslevel=1))


def same(a, b):
    pairs = zip(a, b, strict=True)
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs)


def bytes_of(values):
    assert values.dtype == torch.float32
    return (values * 255).round().to(torch.uint8)


def refused(path, what):
    """Expect one sentence that names the archive, what is wrong with it and the remedy."""
    return pytest.raises(ValueError, match=rf"^{re.escape(str(path))} {what}: {re.escape(REMEDY)}\S+$")


@pytest.fixture
def _no_network(monkeypatch):
    def connect(*arguments, **named):
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", connect)
    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)


# What is there comes back exactly, and no socket is opened


@pytest.mark.usefixtures("_no_network")
def test_digits_need_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = images("digits")
    assert data.train_images.shape == (1442, 1, 8, 8)
    assert data.test_images.shape == (355, 1, 8, 8)
    assert data.train_images.dtype == data.test_images.dtype == torch.float32
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64
    values = torch.cat([data.train_images, data.test_images])
    assert torch.equal(values.unique(), torch.arange(17.0, dtype=torch.float32) / 16)
    assert data.classes == tuple("0123456789")
    assert not list(tmp_path.iterdir())


def test_digits_are_split_within_each_class_and_always_alike():
    from sklearn.datasets import load_digits

    data, published = images("digits"), load_digits()
    whole = data.train_labels.bincount() + data.test_labels.bincount()
    assert torch.equal(whole, torch.tensor(published.target).bincount())
    assert torch.equal(data.test_labels.bincount(), whole // 5)
    for label in range(10):
        stored = torch.tensor(published.images[published.target == label] / 16, dtype=torch.float32)
        split = [data.train_images[data.train_labels == label], data.test_images[data.test_labels == label]]
        assert torch.equal(torch.cat(split)[:, 0], stored)
    assert same(data, images("digits"))


@pytest.mark.usefixtures("_no_network")
def test_mnist_comes_back(tmp_path):
    arrays = mnist_files(tmp_path)
    data = images("mnist", tmp_path)
    assert data.train_images.shape == (5, 1, 28, 28)
    assert data.test_images.shape == (3, 1, 28, 28)
    assert torch.equal(bytes_of(data.train_images)[:, 0], arrays[0])
    assert torch.equal(data.train_labels, arrays[1].long())
    assert torch.equal(bytes_of(data.test_images)[:, 0], arrays[2])
    assert torch.equal(data.test_labels, arrays[3].long())
    assert data.classes == tuple("0123456789")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 255)), min_size=1, max_size=8))
def test_every_label_and_pixel_value_comes_back(tmp_path_factory, items):
    folder = tmp_path_factory.mktemp("mnist")
    labels = torch.tensor([label for label, _ in items], dtype=torch.uint8)
    pixels = torch.tensor([pixel for _, pixel in items], dtype=torch.uint8)[:, None, None].repeat(1, 28, 28)
    for file, array in zip(MNIST, 2 * [pixels, labels], strict=True):
        write(folder / file, gzip.compress(idx(array)))
    data = images("mnist", folder)
    assert torch.equal(bytes_of(data.train_images)[:, 0], pixels)
    assert torch.equal(data.test_labels, labels.long())


@pytest.mark.usefixtures("_no_network")
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("start", ["", "./"])
def test_cifar10_comes_back(tmp_path, kind, start):
    members, train, test = cifar_members()
    folders = [special(start + "cifar-10-batches-bin", tarfile.DIRTYPE)]
    put_cifar(tmp_path, {start + name: content for name, content in members.items()}, extra=folders, format=kind)
    data = images("cifar10", str(tmp_path))
    assert data.train_images.shape == (10, 3, 32, 32)
    assert torch.equal(bytes_of(data.train_images), train[0])
    assert torch.equal(data.train_labels, train[1].long())
    assert torch.equal(bytes_of(data.test_images), test[0])
    assert torch.equal(data.test_labels, test[1].long())
    assert data.classes == tuple(CLASSES)


@pytest.mark.usefixtures("_no_network")
def test_reviews_come_back_by_number(tmp_path):
    put_reviews(tmp_path)
    data = reviews(tmp_path)
    order = ["neg/0_3", "pos/0_9", "neg/2_4", "pos/7_7", "neg/10_1"]
    assert data.train_texts == [REVIEWS[f"aclImdb/train/{name}.txt"] for name in order]
    assert data.train_labels.tolist() == [0, 1, 0, 1, 0]
    assert data.test_texts == ["awful", "superb"]
    assert data.test_labels.tolist() == [0, 1]
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64
    assert data.classes == ("negative", "positive")


def test_the_order_of_the_archive_does_not_matter(tmp_path):
    put_reviews(tmp_path)
    data = reviews(tmp_path)
    put_reviews(tmp_path, dict(reversed(review_members().items())))
    assert same(reviews(tmp_path), data)


@pytest.mark.parametrize(("limit", "texts"), [(1, 2), (2, 4), (3, 5), (10, 5)])
def test_a_limit_holds_for_each_class_in_each_part(tmp_path, limit, texts):
    put_reviews(tmp_path)
    data = reviews(tmp_path, limit=limit)
    assert len(data.train_texts) == len(data.train_labels) == texts
    assert len(data.test_texts) == len(data.test_labels) == 2
    assert same(
        (data.train_texts[:2], data.train_labels[:2]), (reviews(tmp_path).train_texts[:2], torch.tensor([0, 1]))
    )


@given(st.text(max_size=200))
def test_any_text_comes_back(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("imdb")
    put_reviews(folder, review_members() | {"aclImdb/test/pos/0_10.txt": text.encode("utf-8", "replace")})
    assert reviews(folder).test_texts[1] == text.encode("utf-8", "replace").decode()


def test_the_folder_is_data_in_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    arrays = mnist_files(tmp_path / "data")
    put_reviews(tmp_path / "data")
    assert torch.equal(images("mnist").train_labels, arrays[1].long())
    assert len(reviews().train_texts) == 5


def test_nothing_is_written(tmp_path):
    members, *_ = cifar_members()
    put_cifar(tmp_path, members)
    put_reviews(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    images("cifar10", tmp_path)
    reviews(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# What is asked for wrongly, or is not there


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name 'cifar100' is unknown: use digits, mnist or cifar10"):
        images("cifar100")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "7"])
def test_a_limit_that_is_no_count_is_refused(limit):
    with pytest.raises(ValueError, match=f"limit is {limit!r}: give a whole number from 1"):
        reviews(limit=limit)


@pytest.mark.usefixtures("_no_network")
@pytest.mark.parametrize(
    ("load", "file"),
    [
        (lambda folder: images("mnist", folder), "train-images-idx3-ubyte.gz"),
        (lambda folder: images("cifar10", folder), CIFAR10),
        (reviews, IMDB),
    ],
)
def test_what_is_missing_is_named_with_its_address(tmp_path, load, file):
    folder = tmp_path / "none"
    sentence = f"{file} is not in the folder {folder}: put it there from {archives.SOURCES[file][0]}, or pass"
    with pytest.raises(
        FileNotFoundError, match="^" + re.escape(sentence) + " fetch=True, which fetches it, as `make data` does$"
    ):
        load(folder)
    assert not folder.exists()


@pytest.mark.parametrize("file", MNIST)
def test_each_missing_file_of_mnist_is_named(tmp_path, file):
    mnist_files(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"^{file} is not in"):
        images("mnist", tmp_path)


def test_pickles_are_not_opened(tmp_path):
    write(tmp_path / "cifar-10-python.tar.gz", b"any")
    with pytest.raises(FileNotFoundError, match=r"cifar-10-python.tar.gz does not serve: it is made of pickles"):
        images("cifar10", tmp_path)
    members, *_ = cifar_members()
    put_cifar(tmp_path, members)
    assert len(images("cifar10", tmp_path).train_labels) == 10


# MNIST: damage

PIXELS, LABELS = random_images(5, 28, 28)


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        (0, idx(PIXELS, magic=2049), "begins with the number 2049 instead of 2051"),
        (1, idx(LABELS, magic=2051), "begins with the number 2051 instead of 2049"),
        (0, idx(PIXELS)[:15], "has 15 of the 16 bytes of its header"),
        (1, b"", "has 0 of the 8 bytes of its header"),
        (0, idx(PIXELS, shape=(5, 14, 56)), "has images of 14 x 56 pixels instead of 28 x 28"),
        (0, idx(PIXELS, shape=(4, 28, 28)), "announces 4 items, which does not fit the 3920 bytes that follow"),
        (0, idx(PIXELS, shape=(6, 28, 28)), "announces 6 items, which does not fit the 3920 bytes that follow"),
        (0, idx(PIXELS)[:-1], "announces 5 items, which does not fit the 3919 bytes that follow"),
        (1, idx(LABELS) + b"\0", "announces 5 items, which does not fit the 6 bytes that follow"),
        (1, idx(LABELS[:0]), "announces 0 items, which does not fit the 0 bytes that follow"),
        (1, idx(LABELS[:4]), "has 4 labels for the 5 images of train-images-idx3-ubyte.gz"),
        (1, idx(torch.tensor([1, 2, 10, 3, 4])), "has the label 10, above 9"),
        (3, idx(torch.zeros(10_001, dtype=torch.uint8)), "unpacks to more than the 10008 bytes of 10000 items"),
    ],
)
def test_wrong_numbers_are_refused(tmp_path, file, content, what):
    mnist_files(tmp_path)
    path = write(tmp_path / MNIST[file], gzip.compress(content))
    with refused(path, what):
        images("mnist", tmp_path)


def test_numbers_are_big_endian(tmp_path):
    mnist_files(tmp_path)
    content = idx(LABELS)
    path = write(tmp_path / MNIST[1], gzip.compress(content[3::-1] + content[7:3:-1] + content[8:]))
    with refused(path, "begins with the number 17301504 instead of 2049"):
        images("mnist", tmp_path)


def test_what_unpacks_to_too_much_is_not_unpacked(tmp_path):
    mnist_files(tmp_path)
    bomb = zlib.compressobj(wbits=31)
    packed = b"".join(bomb.compress(bytes(2**20)) for _ in range(200)) + bomb.flush()
    path = write(tmp_path / MNIST[0], packed)
    with refused(path, "unpacks to more than the 47040016 bytes of 60000 items"):
        images("mnist", tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>404 Not Found</html>", idx(LABELS), b"\x1f\x8b"])
def test_what_is_no_gzip_is_refused(tmp_path, content):
    mnist_files(tmp_path)
    path = write(tmp_path / MNIST[1], content)
    what = "cannot be unpacked, it is cut off or damaged" if content else "has 0 of the 8 bytes of its header"
    with refused(path, what):
        images("mnist", tmp_path)


@pytest.mark.parametrize("file", [0, 1])
def test_every_cut_of_a_file_is_refused(tmp_path, file):
    mnist_files(tmp_path)
    whole = gzip.compress(idx([torch.zeros(5, 28, 28, dtype=torch.uint8), LABELS][file]))
    for length in range(len(whole)):
        path = write(tmp_path / MNIST[file], whole[:length])
        with refused(path, ".*"):
            images("mnist", tmp_path)
    write(tmp_path / MNIST[file], whole)
    assert len(images("mnist", tmp_path).train_labels) == 5


def test_every_changed_byte_of_a_file_is_refused_or_changes_nothing(tmp_path):
    mnist_files(tmp_path)
    published, whole = images("mnist", tmp_path), (tmp_path / MNIST[1]).read_bytes()
    refusals = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        path = write(tmp_path / MNIST[1], changed)
        try:
            assert same(images("mnist", tmp_path), published)
        except ValueError as error:
            refusals += 1
            assert str(error).startswith(f"{path} ")  # noqa: PT017
    assert refusals >= len(whole) - 7  # gzip's own header has a time and two more bytes that mean nothing here


# CIFAR-10 and reviews: damage


@pytest.mark.parametrize("member", [NAMES, TEST_BATCH, *BATCHES])
def test_a_member_that_is_not_there_is_named(tmp_path, member):
    members, *_ = cifar_members(1)
    del members[member]
    with refused(put_cifar(tmp_path, members), f"lacks the member {member}"):
        images("cifar10", tmp_path)


def test_a_folder_is_no_member(tmp_path):
    members, *_ = cifar_members(1)
    del members[TEST_BATCH]
    path = put_cifar(tmp_path, members, extra=[special(TEST_BATCH, tarfile.DIRTYPE)])
    with refused(path, f"lacks the member {TEST_BATCH}"):
        images("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("member", "content", "what"),
    [
        (BATCHES[2], bytes(RECORD - 1), f"has 3072 bytes in {BATCHES[2]}, which are no records of 3073"),
        (BATCHES[0], b"", f"has 0 bytes in {BATCHES[0]}, which are no records of 3073"),
        (TEST_BATCH, bytes(2 * RECORD + 1), f"has 6147 bytes in {TEST_BATCH}, which are no records of 3073"),
        (BATCHES[4], b"\x0a" + bytes(RECORD - 1), "has the label 10, above 9"),
        (TEST_BATCH, bytes(RECORD) + b"\xff" + bytes(RECORD - 1), "has the label 255, above 9"),
        (NAMES, b"cat\ndog\n", f"names 2 classes instead of 10 in {NAMES}"),
        (NAMES, b"\xff\n", f"has bytes in {NAMES}, the first at 0, that are no UTF-8"),
        (NAMES, bytes(2**16 + 1), f"announces 65537 bytes of {NAMES}, not 0 to 65536"),
        (BATCHES[1], bytes(10_001 * RECORD), f"announces 30733073 bytes of {BATCHES[1]}, not 0 to 30730000"),
    ],
)
def test_wrong_records_are_refused(tmp_path, member, content, what):
    members, *_ = cifar_members(1)
    with refused(put_cifar(tmp_path, members | {member: content}), what):
        images("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("train/pos/3_8.txt", b"caf\xe9", "has bytes in aclImdb/train/pos/3_8.txt, the first at 3, that are no UTF-8"),
        ("test/neg/3_1.txt", bytes(2**16 + 1), "announces 65537 bytes of aclImdb/test/neg/3_1.txt, not 0 to 65536"),
        ("test/neg/3_7.txt", b"", "calls aclImdb/test/neg/3_7.txt negative, which has 7 of 10 stars"),
        ("train/pos/3_4.txt", b"", "calls aclImdb/train/pos/3_4.txt positive, which has 4 of 10 stars"),
        ("train/pos/3_11.txt", b"", "calls aclImdb/train/pos/3_11.txt positive, which has 11 of 10 stars"),
        ("train/pos/0_8.txt", b"", "has review 0 of train/pos twice"),
    ],
)
def test_wrong_reviews_are_refused(tmp_path, name, content, what):
    with refused(put_reviews(tmp_path, review_members() | {f"aclImdb/{name}": content}), what):
        reviews(tmp_path)


@pytest.mark.parametrize("folder", ["train/neg", "train/pos", "test/neg", "test/pos"])
def test_each_class_must_have_reviews(tmp_path, folder):
    members = {name: text for name, text in review_members().items() if folder not in name}
    with refused(put_reviews(tmp_path, members), f"has no review in aclImdb/{folder}"):
        reviews(tmp_path)


def test_a_member_that_comes_twice_is_refused(tmp_path):
    members, *_ = cifar_members(1)
    first, again = tar(members), tar({TEST_BATCH: members[TEST_BATCH]})
    end = first.rstrip(b"\0").__len__()
    whole = first[: end + -end % 512]
    path = write(tmp_path / CIFAR10, gzip.compress(whole + again))
    with refused(path, f"has the member {TEST_BATCH} twice"):
        images("cifar10", tmp_path)


ESCAPES = [
    "../evil",
    "aclImdb/../../evil",
    "/abs/olute",
    "aclImdb/train/pos/..",
    "..\\evil",
    "C:\\evil",
    "C:evil",
    "\\x",
]
SPECIAL = {
    "symbolic link": (tarfile.SYMTYPE, "README"),
    "hard link": (tarfile.LNKTYPE, "aclImdb/README"),
    "character device": (tarfile.CHRTYPE, ""),
    "block device": (tarfile.BLKTYPE, ""),
    "pipe": (tarfile.FIFOTYPE, ""),
    "unknown type": (b"Q", ""),
}


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE])
@pytest.mark.parametrize("name", ESCAPES)
def test_a_path_that_leaves_the_archive_is_refused(tmp_path, name, kind):
    path = put_reviews(tmp_path, extra=[special(name, kind)])
    with refused(path, re.escape(f"has a member {name!r} outside its own folder")):
        reviews(tmp_path)
    assert sorted(tmp_path.rglob("*")) == [path]


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["aclImdb/other", "aclImdb/train/pos/8_8.txt"])
def test_what_is_no_file_is_refused_even_if_not_needed(tmp_path, kind, name):
    path = put_reviews(tmp_path, extra=[special(name, *SPECIAL[kind])])
    with refused(path, re.escape(f"has a member '{name}' that is neither a file nor a folder (a link or a device)")):
        reviews(tmp_path)


def test_a_sparse_file_is_refused(tmp_path):
    header = special("aclImdb/train/pos/8_8.txt", tarfile.REGTYPE)
    header.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "9"}
    with refused(put_reviews(tmp_path, extra=[header]), ".* neither a file nor a folder .*"):
        reviews(tmp_path)
    path = put_reviews(tmp_path, extra=[special(header.name, tarfile.GNUTYPE_SPARSE)])
    with refused(path, ".* neither a file nor a folder .it has holes."):
        reviews(tmp_path)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"GNU.sparse.map": "0,many", "GNU.sparse.size": "9"}, "cannot be unpacked, it is cut off or damaged"),
        ({"size": "-1"}, "announces -1 bytes of aclImdb/train/pos/8_8.txt, not 0 to 65536"),
        ({"size": "70000"}, "announces 70000 bytes of aclImdb/train/pos/8_8.txt, not 0 to 65536"),
        ({"path": "../evil"}, "has a member '../evil' outside its own folder"),
    ],
)
def test_extended_headers_count(tmp_path, fields, what):
    header = special("aclImdb/train/pos/8_8.txt", tarfile.REGTYPE)
    header.pax_headers = fields
    with refused(put_reviews(tmp_path, extra=[header]), re.escape(what)):
        reviews(tmp_path)


def test_unsafe_members_of_cifar10_are_refused(tmp_path):
    members, *_ = cifar_members(1)
    path = put_cifar(tmp_path, members, extra=[special("/abs", tarfile.SYMTYPE, "/etc")])
    with refused(path, "has a member '/abs' outside its own folder"):
        images("cifar10", tmp_path)


def announced(kind, size, name="aclImdb/train/pos/8_8.txt"):
    """Bytes of a header that announces more than follows."""
    header = special(name, kind)
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.REGTYPE, "announces 1099511627776 bytes of aclImdb/train/pos/8_8.txt, not 0 to 65536"),
        (tarfile.XHDTYPE, "has a header of 1099511627776 bytes"),
        (tarfile.XGLTYPE, "has a header of 1099511627776 bytes"),
        (tarfile.GNUTYPE_LONGNAME, "has a header of 1099511627776 bytes"),
        (tarfile.GNUTYPE_LONGLINK, "has a header of 1099511627776 bytes"),
    ],
)
def test_a_terabyte_is_refused_before_it_is_read(tmp_path, kind, what):
    path = write(tmp_path / IMDB, gzip.compress(announced(kind, 2**40) + bytes(2**20)))
    with refused(path, what):
        reviews(tmp_path)


def test_a_terabyte_that_is_not_needed_is_not_skipped_for_ever(tmp_path, monkeypatch):
    path = write(tmp_path / IMDB, gzip.compress(announced(tarfile.REGTYPE, 2**40, "aclImdb/other") + bytes(2**10)))
    with refused(path, "announces 1099511627776 bytes of aclImdb/other, not 0 to 1073741824"):
        reviews(tmp_path)
    monkeypatch.setattr(archives, "UNPACKED", 2**20)
    path = put_reviews(tmp_path, review_members() | {f"aclImdb/{k}": bytes(2**19) for k in range(3)})
    with refused(path, "unpacks to more than any of these data sets has"):
        reviews(tmp_path)


def test_a_thousand_headers_of_one_member_are_refused(tmp_path):
    name = announced(tarfile.GNUTYPE_LONGNAME, 5) + b"name\0".ljust(512, b"\0")
    path = write(tmp_path / IMDB, gzip.compress(5000 * name + tar(review_members())))
    with refused(path, "cannot be unpacked, it is cut off or damaged"):
        reviews(tmp_path)


@pytest.mark.parametrize("rest", [b"more", tar({"aclImdb/train/pos/9_9.txt": b"lost"}), bytes(2**23)])
def test_what_stands_behind_the_end_is_refused(tmp_path, rest):
    path = write(tmp_path / IMDB, gzip.compress(tar(review_members()) + rest))
    with refused(path, "goes on behind its end"):
        reviews(tmp_path)


def test_zeros_behind_the_end_are_padding(tmp_path):
    put_reviews(tmp_path)
    data = reviews(tmp_path)
    write(tmp_path / IMDB, gzip.compress(tar(review_members()) + bytes(2**20)))
    assert same(reviews(tmp_path), data)


@pytest.mark.parametrize("name", ["reviews", "cifar10"])
def test_every_cut_of_an_archive_is_refused(tmp_path, name):
    blank = dict.fromkeys([*BATCHES, TEST_BATCH], bytes(RECORD)) | {NAMES: " ".join(CLASSES).encode()}
    path = put_reviews(tmp_path) if name == "reviews" else put_cifar(tmp_path, blank)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with refused(path, ".*"):
            reviews(tmp_path) if name == "reviews" else images("cifar10", tmp_path)


def test_every_cut_before_compression_is_refused(tmp_path):
    whole = tar(review_members())
    end = len(whole.rstrip(b"\0"))
    end += -end % 512  # of the last member; one block of zeros behind it ends the archive
    cuts = {*range(0, end + 512, 512), *random.Random(0).sample(range(end + 512), 100), end + 511}
    for length in cuts:
        path = write(tmp_path / IMDB, gzip.compress(whole[:length]))
        with refused(path, ".*"):
            reviews(tmp_path)
    write(tmp_path / IMDB, gzip.compress(whole[: end + 512]))
    assert len(reviews(tmp_path).train_texts) == 5


@given(st.data())
def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("imdb")
    path = put_reviews(folder)
    published, whole = reviews(folder), bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    try:
        read = reviews(folder)
    except ValueError as error:
        assert REMEDY in str(error)  # noqa: PT017
    else:
        assert same(read, published)


@given(st.data())
def test_a_damaged_header_is_refused_or_skipped_by_name(tmp_path_factory, data):
    """Without gzip's checksum to help: headers have their own, so a change is refused."""
    folder = tmp_path_factory.mktemp("imdb")
    whole = bytearray(tar({name: text.encode() for name, text in REVIEWS.items()}))
    headers = [start for start in range(0, len(whole), 512) if whole[start : start + 7] == b"aclImdb"]
    place = data.draw(st.sampled_from(headers)) + data.draw(st.integers(0, 147))
    whole[place] ^= data.draw(st.integers(1, 127))
    path = write(folder / IMDB, gzip.compress(bytes(whole)))
    with refused(path, ".*"):
        reviews(folder)


@given(st.binary(max_size=3000))
def test_any_bytes_as_an_archive_are_refused_in_one_sentence(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    for packed in (content, gzip.compress(content)):
        write(folder / IMDB, packed)
        with refused(folder / IMDB, ".*"):
            reviews(folder)


# Fetching, from a server on this machine


@pytest.fixture
def server(monkeypatch):
    """Serve ``files``, from the addresses that ``SOURCES`` then has; ``said`` is the length that is announced."""
    state = SimpleNamespace(files={}, asked=[], said=None, stall=threading.Event(), stalls=False)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            file = self.path.rpartition("/")[2]
            state.asked.append(file)
            if file not in state.files:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(state.said or len(state.files[file])))
            self.end_headers()
            self.wfile.write(state.files[file])
            if state.stalls:
                state.stall.wait(60)

        def log_message(self, *arguments):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    state.address = f"http://127.0.0.1:{running.server_port}/"
    monkeypatch.setenv("NO_PROXY", "*")
    for file, (_, md5) in archives.SOURCES.items():
        monkeypatch.setitem(archives.SOURCES, file, (state.address + file, md5))
    yield state
    state.stall.set()
    running.shutdown()
    running.server_close()


def offer(server, folder, monkeypatch):
    """Move a folder's files to the server, with their hashes."""
    for path in folder.iterdir():
        server.files[path.name] = path.read_bytes()
        md5 = hashlib.md5(server.files[path.name]).hexdigest()
        monkeypatch.setitem(archives.SOURCES, path.name, (server.address + path.name, md5))
        path.unlink()


def test_fetch_brings_what_is_missing_once(tmp_path, server, monkeypatch):
    arrays = mnist_files(tmp_path)
    members, train, _ = cifar_members()
    put_cifar(tmp_path, members)
    put_reviews(tmp_path)
    offer(server, tmp_path, monkeypatch)
    folder = tmp_path / "deep" / "folder"
    for _ in range(2):
        assert torch.equal(images("mnist", folder, fetch=True).test_labels, arrays[3].long())
        assert torch.equal(images("cifar10", folder, fetch=True).train_labels, train[1].long())
        assert reviews(folder, fetch=True).test_texts == ["awful", "superb"]
    assert sorted(server.asked) == sorted([*MNIST, CIFAR10, IMDB])
    assert sorted(path.name for path in folder.iterdir()) == sorted(server.asked)


def test_only_fetch_asks_the_server(tmp_path, server, monkeypatch):
    put_reviews(tmp_path)
    offer(server, tmp_path, monkeypatch)
    with pytest.raises(FileNotFoundError, match=server.address):
        reviews(tmp_path)
    assert not server.asked


def test_what_lies_in_the_folder_is_taken_as_it_is(tmp_path, server):
    """A mirror's archive has another hash; it is neither refused nor replaced."""
    path = put_reviews(tmp_path)
    before = path.read_bytes()
    assert len(reviews(tmp_path, fetch=True).train_texts) == 5
    assert path.read_bytes() == before
    assert not server.asked


def test_another_hash_is_refused_and_nothing_stays(tmp_path, server):
    server.files[IMDB] = b"another"
    sentence = f"{server.address}{IMDB} does not have the published MD5 {archives.SOURCES[IMDB][1]}, nothing was put"
    with pytest.raises(ValueError, match="^" + re.escape(sentence) + ".*: try again, or fetch it yourself and put it"):
        reviews(tmp_path, fetch=True)
    assert not list(tmp_path.iterdir())


def test_a_file_that_the_server_lacks(tmp_path, server):
    with pytest.raises(
        ConnectionError, match=r"could not be fetched into .* \(status 404\): try again, or fetch it your"
    ):
        images("cifar10", tmp_path, fetch=True)
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_answer(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/{IMDB}"
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setitem(archives.SOURCES, IMDB, (address, "0" * 32))
    with pytest.raises(
        ConnectionError, match=rf"^{re.escape(address)} could not be fetched into .* \(ConnectionError\)"
    ):
        reviews(tmp_path, fetch=True)
    assert not list(tmp_path.iterdir())


def test_a_connection_that_breaks_off_leaves_nothing(tmp_path, server, monkeypatch):
    put_reviews(tmp_path)
    offer(server, tmp_path, monkeypatch)
    server.said = len(server.files[IMDB])
    server.files[IMDB] = server.files[IMDB][:100]
    with pytest.raises(
        (ConnectionError, ValueError), match="try again, or fetch it yourself and put it into that folder"
    ):
        reviews(tmp_path, fetch=True)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path, server):
    server.files[IMDB] = b"any"
    folder = write(tmp_path / "file", b"") / "data"
    with pytest.raises(ConnectionError, match="could not be fetched into"):
        reviews(folder, fetch=True)


def test_a_killed_fetch_leaves_nothing_that_looks_complete(tmp_path, server, monkeypatch):
    put_reviews(tmp_path)
    offer(server, tmp_path, monkeypatch)
    whole = server.files[IMDB]
    server.said, server.stalls, server.files[IMDB] = len(whole), True, whole[: len(whole) // 2]
    code = f"from lib import archives\narchives.SOURCES[{IMDB!r}] = {archives.SOURCES[IMDB]!r}\n"
    code += f"archives.reviews({str(tmp_path)!r}, fetch=True)"
    child = subprocess.Popen([sys.executable, "-c", code], env=os.environ, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if server.asked:
            break
        threading.Event().wait(0.1)
    child.kill()
    child.wait()
    assert server.asked
    assert not (tmp_path / IMDB).exists()
    server.said, server.stalls, server.files[IMDB] = None, False, whole
    assert len(reviews(tmp_path, fetch=True).train_texts) == 5


def test_published_hashes_are_md5_of_https_addresses():
    assert len(archives.SOURCES) == 6
    for file, (address, md5) in archives.SOURCES.items():
        assert address.startswith("https://")
        assert address.endswith("/" + file)
        assert re.fullmatch("[0-9a-f]{32}", md5)
