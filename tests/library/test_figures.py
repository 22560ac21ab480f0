"""Figures draw ordinary and odd input, show every name that they are given, and keep to the house style."""

import itertools

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from lib import figures

POINTS = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])
SCORES = np.array([1.0, 0.9, 0.0])
CHOSEN = np.array([True, False, False])
X = np.arange(1, 41)


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def plane(starts=3, records=30, **kwargs):
    times = np.arange(records)
    paths = np.linspace(0, 2, records)[:, None, None] * np.ones((1, starts, 2)) + np.arange(starts)[None, :, None]
    figure = figures.plane(paths, times, POINTS, SCORES, CHOSEN, **kwargs)
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    return figure


def curves(series, **kwargs):
    figure = figures.curves(X, series, "iteration", "1 - cos", **kwargs)
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize("starts", [1, 6])
def test_plane_draws_one_path_a_start_and_every_score(starts):
    figure = plane(starts)
    drawn = [item for item in figure.axes[0].collections if isinstance(item, LineCollection)]
    assert len(drawn) == starts
    assert all(len(item.get_segments()) == 29 for item in drawn)
    assert [text for text in texts(figure) if "score" in text] == ["score 1", "score 0.9", "score 0"]
    assert figure.axes[1].get_xlabel() == "iteration"


def test_plane_takes_names_for_scores():
    figure = figures.plane(np.ones((3, 1, 2)), range(3), [[0, 0], [2, 1]], ["Y = +1", "best"], [True, False])
    assert set(texts(figure)) == {"Y = +1", "best"}


@pytest.mark.parametrize(
    "direction",
    [(1, 0), (0, 1), (-1, 0), (0, -2), (3, 1), (-1, -1), (1e-9, -1)],
    ids=str,
)
def test_ray_in_any_direction_ends_at_the_frame(direction):
    figure = plane(rays={"SVM": direction}, window=(-2, 3, -1, 4))
    assert "SVM" in texts(figure)
    end = figure.axes[0].lines[-1].get_xydata()[-1]
    assert np.isclose(end, [-2, -1]).any() or np.isclose(end, [3, 4]).any()
    np.testing.assert_allclose(end / np.linalg.norm(end), direction / np.linalg.norm(direction), atol=1e-8)


def test_every_ray_is_drawn():
    rays = {f"token {k}": (np.cos(k), np.sin(k)) for k in range(6)}
    assert set(rays) <= set(texts(plane(rays=rays)))


@pytest.mark.parametrize(
    ("normal", "offset"),
    [((0.0, 2.0), 1.0), ((-0.1, 1.0), 0.505), ((-1.0, 0.3), 0.2), ((1.0, 0.0), None), ((0.0, -1.0), None)],
    ids=str,
)
def test_separating_line_runs_midway_or_is_left_out(normal, offset):
    drawn = [item for item in plane(normal=normal).axes[0].lines if hasattr(item, "get_slope")]
    for item in drawn:
        assert np.dot(normal, item.get_xy1()) == pytest.approx(offset)
        assert np.dot(normal, item.get_xy2()) == pytest.approx(offset)
    assert len(drawn) == (offset is not None)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"window": (100, 101, 100, 101)},  # every path outside
        {"records": 2},
        {"clock": "log time"},
    ],
    ids=str,
)
def test_odd_planes(kwargs):
    plane(**kwargs)


def test_plane_with_every_token_chosen_or_none():
    paths = np.zeros((5, 1, 2))
    for chosen in (np.ones(3, bool), np.zeros(3, bool)):
        figures.plane(paths, np.arange(5), POINTS, SCORES, chosen).canvas.draw()


def test_crowded_tokens_of_one_score_are_labelled_once():
    points = np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 0.01], [1.0, 1.0]])
    figure = figures.plane(np.zeros((5, 1, 2)), np.arange(5), points, np.array([1, 1, 2, 1]), np.ones(4, bool))
    assert sorted(texts(figure)) == ["score 1", "score 1", "score 2"]


@pytest.mark.parametrize("scales", [("log", "log"), ("linear", "linear")], ids=str)
def test_curves_carry_their_names(scales):
    references = {"1 / t": 1 / X}
    figure = curves({"one": 1 / X, "two": 1 / X**2}, references=references, xscale=scales[0], yscale=scales[1])
    assert set(texts(figure)) == {"one", "two", "1 / t"}
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == scales
    colours = [str(text.get_color()) for text in figure.axes[0].texts]
    assert len(set(colours)) == 3


def test_many_trials_are_a_median_and_a_band():
    trials = np.arange(1, 12) / X[:, None]
    ax = curves({"trials": trials}).axes[0]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 6 / X)
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((2 / 40, 10))


HOLES = np.where(X % 3 == 0, np.nan, 1 / X)


@pytest.mark.parametrize(
    "y",
    [
        HOLES,
        np.where(X > 20, np.nan, 1 / X),
        np.full(40, np.nan),
        np.zeros(40),
        np.stack([HOLES, 1 / X], axis=1),
        np.full((40, 3), np.nan),
        np.full((40, 1), 0.5),
    ],
    ids=["holes", "ends early", "nothing", "zero", "band with holes", "band of nothing", "one trial"],
)
def test_curves_with_odd_values(y):
    assert set(texts(curves({"odd": y, "other": 1 / X}))) == {"odd", "other"}


def test_labels_do_not_overlap():
    figure = curves({f"curve {k}": (1 + 1e-3 * k) / X for k in range(5)})
    renderer = figure.canvas.get_renderer()
    boxes = sorted((text.get_window_extent(renderer) for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 3 for below, above in itertools.pairwise(boxes))


def test_every_curve_is_drawn():
    names = [f"curve {k}" for k in range(12)]
    assert set(texts(curves({name: (k + 1) / X for k, name in enumerate(names)}))) == set(names)


@pytest.mark.parametrize("ends", [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 0.99, 0.5)], ids=str)
def test_labels_at_the_top_of_panels_do_not_overlap(ends):
    for ax in figures.panels(2):
        rising = {f"curve {k}\nof three": np.linspace(0, end, len(X)) for k, end in enumerate(ends)}
        figure = figures.curves(X, rising, "x", "y", yscale="linear", ax=ax)
    figure.canvas.draw()
    for ax in figure.axes:
        boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
        assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))


def test_a_given_interval_is_drawn_around_its_curve():
    ax = curves({"share": 1 / X, "other": 2 / X}, bands={"share": (0.5 / X, 1.5 / X)}).axes[0]
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.5 / X[-1], 1.5 / X[0]))


def test_histogram_stacks_what_is_inside_its_edges():
    samples = {"few": [0.05, 0.15, 0.15], "none": [], "more": [0.15, 0.25, 0.25, 9.0, -1.0]}
    ax = figures.histogram(samples, [0.0, 0.1, 0.2, 0.3], "gap", "runs").axes[0]
    tops = [patch.get_data().values for patch in ax.patches]
    np.testing.assert_array_equal(tops, [[1, 2, 0], [1, 2, 0], [1, 3, 2]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(samples)
    assert figures.histogram({"one": []}, [0.0, 1.0], "gap", "runs").axes[0].get_legend() is None


def test_panels_are_stacked_in_one_figure():
    upper, lower = figures.panels(2)
    figure = figures.curves(X, {"a": 1 / X}, "x", "y", ax=upper)
    assert figures.curves(X, {"b": 1 / X}, "x", "y", ax=lower) is figure
    assert figure.get_figwidth() == figures.WIDTH
    assert len(figures.panels(1)) == 1


def test_agreement():
    values = np.linspace(-3, 2, 20)
    figure = figures.agreement(values, values + 0.1, "predicted", "measured")
    assert isinstance(figure, Figure)
    assert figure.axes[0].get_ylabel() == "measured"
    np.testing.assert_allclose(figure.axes[0].collections[0].get_offsets()[:, 1], values + 0.1)


COLUMNS, ROWS = np.arange(2, 10), np.arange(0, 60, 5)
SLOPE = 1.0 * (ROWS[:, None] < 4 * COLUMNS)


def heatmap(values, **kwargs):
    figure = figures.heatmap(COLUMNS, ROWS, values, "d", "rows", **{"label": "fraction", **kwargs})
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    return figure


def test_heatmap_puts_rows_upwards_and_columns_to_the_right():
    values = np.arange(SLOPE.size).reshape(SLOPE.shape)
    figure = heatmap(values, title="all")
    image = figure.axes[0].collections[0]
    np.testing.assert_array_equal(image.get_array(), values)
    corners = image.get_coordinates()
    np.testing.assert_allclose(corners[0, 0], (1.5, -2.5))
    np.testing.assert_allclose(corners[-1, -1], (9.5, 57.5))
    assert figure.axes[1].get_xlabel() == "fraction"
    assert image.get_clim() == (0, values.size - 1)


@pytest.mark.parametrize("values", [SLOPE, np.ones_like(SLOPE), np.where(SLOPE == 1, 0.3, np.nan)], ids=range(3))
def test_heatmap_names_its_lines_and_stays_in_its_frame(values):
    lines = {"up": (COLUMNS, 10 * COLUMNS), "flat": (COLUMNS, 0 * COLUMNS + 20), "outside": (COLUMNS, 0 * COLUMNS + 99)}
    figure = heatmap(values, lines=lines, level=0.5, limits=(0, 1))
    assert texts(figure) == ["up", "flat"]
    assert figure.axes[0].get_ylim() == (-2.5, 57.5)


def test_heatmap_of_one_row_or_column_has_no_contour():
    for values in (SLOPE[:1], SLOPE[:, :1]):
        rows, columns = np.arange(values.shape[0]), np.arange(values.shape[1])
        figures.heatmap(columns, rows, values, "d", "rows", label="fraction", level=0.5).canvas.draw()


def test_heatmap_of_classes_lists_them():
    figure = heatmap(SLOPE, classes=["local", "global"], label="")
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["local", "global"]
    image = figure.axes[0].collections[0]
    np.testing.assert_allclose(image.to_rgba(np.array([0, 1]))[:, :3], figures.PALETTE[:2])


def test_panels_of_heatmaps_share_one_bar():
    upper, lower = figures.panels(2)
    figures.heatmap(COLUMNS, ROWS, SLOPE, "", "rows", label="", ax=upper)
    figure = figures.heatmap(COLUMNS, ROWS, SLOPE, "d", "rows", label="fraction", ax=lower)
    figure.canvas.draw()
    assert len(figure.axes) == 3


SENTENCES = [["[CLS]", "a", "truly", "dreadful", "film"], 3 * ["the", "film", "about", "a", "quiet", "town", "was"]]
ATTENTION = [np.arange(10).reshape(2, 5) / 10, np.linspace(0, 1, 42).reshape(2, 21)]


def boxes_of_words(figure):
    """Name and box of each text in front of and above the cells, in the order of drawing."""
    figure.canvas.draw()
    return [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts]


def test_sentences_have_every_word_and_a_cell_for_each_row_under_it():
    figure = figures.sentences(SENTENCES, ATTENTION, ["start", "end"], marked=[3, 0])
    drawn = boxes_of_words(figure)
    words = [(name, box) for name, box in drawn if name not in ("start", "end")]
    assert [name for name, _ in words] == [*SENTENCES[0], *SENTENCES[1]]
    bold = [text.get_text() for text in figure.axes[0].texts if text.get_weight() == "bold"]
    assert bold == ["dreadful", "the"]
    cells = figure.axes[0].collections[0]
    found = {}
    for path, shade in zip(cells.get_paths(), cells.get_array(), strict=True):
        corners = figure.axes[0].transData.transform(path.vertices[:4])
        left, right, top = corners[:, 0].min(), corners[:, 0].max(), corners[:, 1].max()
        above = [k for k, (_, box) in enumerate(words) if left <= (box.x0 + box.x1) / 2 <= right and box.y0 > top]
        nearest = min(above, key=lambda k: words[k][1].y0 - top)
        found.setdefault(nearest, []).append((-top, shade))
    shades = np.array([[shade for _, shade in sorted(found[k])] for k in range(26)]).T
    np.testing.assert_allclose(shades, np.concatenate(ATTENTION, axis=1))


def test_sentences_are_wrapped_and_stay_in_the_figure():
    figure = figures.sentences(SENTENCES, ATTENTION, ["start", "end"])
    drawn = boxes_of_words(figure)
    lines = sum(name == "start" for name, _ in drawn)
    assert lines == 1 + 2
    assert figure.get_figwidth() == figures.WIDTH
    frame = figure.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 <= frame.y1 for _, box in drawn)
    assert not any(a.overlaps(b) for (_, a), (_, b) in itertools.combinations(drawn, 2))
    assert figure.axes[1].get_xlabel() == "attention"


def test_sentences_of_one_long_word_or_unequal_numbers():
    figures.sentences([["incomprehensibilities" * 3, "a"]], [[[0.0, 1.0]]], ["end"]).canvas.draw()


DIGITS = np.linspace(0, 1, 2 * 4 * 8).reshape(2, 1, 4, 8)
MAPS = np.arange(2 * 3 * 8).reshape(2, 3, 8) / 48


def pictures(images=DIGITS, attention=MAPS, columns=("start", "middle", "end"), **kwargs):
    figure = figures.pictures(images, attention, columns, **kwargs)
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize("attention", [MAPS, MAPS.reshape(2, 3, 2, 4)], ids=["flat", "square"])
def test_pictures_put_each_map_over_its_image(attention):
    figure = pictures(attention=attention)
    axes = figure.axes[:-1]
    assert [ax.get_title(loc="center") for ax in axes] == ["start", "middle", "end", "", "", ""]
    for k, ax in enumerate(axes):
        image, seen = ax.images
        np.testing.assert_array_equal(image.get_array(), DIGITS[k // 3, 0])
        np.testing.assert_array_equal(seen.get_array(), MAPS[k // 3, k % 3].reshape(2, 4))
        assert tuple(image.get_extent()) == tuple(seen.get_extent()) == (0, 8, 4, 0)
        assert seen.get_clim() == (0, MAPS.max())
    assert figure.axes[-1].get_xlabel() == "attention"


def test_pictures_hide_an_image_only_where_the_attention_is():
    seen = pictures().axes[0].images[1]
    shades = seen.to_rgba(np.linspace(0, MAPS.max(), 5))[:, -1]
    assert shades[0] == 0
    assert (np.diff(shades) > 0).all()
    assert shades[-1] < 1


def test_pictures_have_notes_and_colours_and_fit_the_page():
    notes = [["15.9", "8.0", "1.2"], ["16.0", "7.0", "1.1"]]
    figure = pictures(DIGITS.repeat(3, axis=1), notes=notes, label="share")
    axes = figure.axes[:-1]
    assert [ax.get_xlabel() for ax in axes] == notes[0] + notes[1]
    assert axes[0].images[0].get_array().shape == (4, 8, 3)
    assert figure.get_figwidth() == figures.WIDTH
    boxes = [ax.get_tightbbox() for ax in axes]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_pictures_of_one_image_and_of_no_attention():
    pictures(DIGITS[:1], 0 * MAPS[:1, :1], ["start"])


# Machado, Oliveira and Fernandes 2009, the whole of deuteranopia and protanopia, on linear RGB
EYES = {
    "all cones": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


@pytest.mark.parametrize("eye", EYES)
def test_colours_are_distinct_for_every_eye(eye):
    seen = np.array(figures.PALETTE[:4]) ** 2.2 @ np.transpose(EYES[eye])
    seen = seen.clip(0, 1) ** (1 / 2.2)
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.15


def test_time_runs_from_light_to_dark():
    lightness = figures.TIME(np.linspace(0, 1, 20))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) < 0).all()
