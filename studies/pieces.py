"""CIFAR-10 as pieces of at most 60 MiB, so that it can be carried to a machine without a network.

``python -m studies.pieces`` cuts the package in ``data/`` into zip files of lossless WebP pictures, a thousand
photographs in each; :func:`photographs` puts them together again.
"""

import io
import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from studies import archives

FOLDER = Path(archives.FOLDER, "pieces")
PIECES, EACH, COLUMNS = 2, 1000, 10  # files, photographs in a picture, photographs in a row of it


def cut(folder=FOLDER):
    """Cut CIFAR-10 into pieces; return their paths."""
    from PIL import Image

    data = archives.images("cifar10")
    images = (torch.cat([data.train_images, data.test_images]) * 255).round().to(torch.uint8)
    labels = torch.cat([data.train_labels, data.test_labels])
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"cifar10-{k}.zip" for k in range(PIECES)]
    for path, pixels, names in zip(paths, images.chunk(PIECES), labels.chunk(PIECES), strict=True):
        with zipfile.ZipFile(path, "w") as piece:  # what is in it is compressed already
            piece.writestr("labels.json", json.dumps(names.tolist()))
            for k, part in enumerate(pixels.split(EACH)):
                picture = part.unflatten(0, (-1, COLUMNS)).permute(0, 3, 1, 4, 2)  # row, height, column, width, colour
                content = io.BytesIO()
                Image.fromarray(picture.flatten(0, 1).flatten(1, 2).numpy()).save(content, "WEBP", lossless=True)
                piece.writestr(f"{k:02}.webp", content.getvalue())
    return paths


def photographs(folder=FOLDER):
    """Bytes of all photographs of CIFAR-10 and their labels: (60000, 3, 32, 32) and (60000,), the last 10,000 to test.

    From the pieces if they are there, else from the package in ``data/``.
    """
    paths = sorted(Path(folder).glob("cifar10-*.zip"))
    if len(paths) < PIECES:
        data = archives.images("cifar10")
        images, labels = (torch.cat(parts) for parts in zip(data[:2], data[2:4], strict=True))
        return (images * 255).round().to(torch.uint8), labels
    parts = [_read(path) for path in paths]
    images, labels = (torch.cat(part) for part in zip(*parts, strict=True))
    return images, labels


def _read(path):
    from PIL import Image

    def pixels(content):
        picture = torch.from_numpy(np.array(Image.open(io.BytesIO(content)).convert("RGB")))
        picture = picture.unflatten(0, (-1, 32)).unflatten(2, (COLUMNS, 32))
        return picture.permute(0, 2, 4, 1, 3).flatten(0, 1)

    with zipfile.ZipFile(path) as piece:
        pictures = [piece.read(name) for name in sorted(piece.namelist()) if name.endswith(".webp")]
        labels = torch.tensor(json.loads(piece.read("labels.json")))
    with ThreadPoolExecutor() as pool:
        return torch.cat([*pool.map(pixels, pictures)]), labels


if __name__ == "__main__":
    for made in cut():
        print(f"{made}: {made.stat().st_size / 2**20:.0f} MiB")
