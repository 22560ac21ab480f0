"""Figures draw ordinary and odd input, show every name that they are given, and keep to the house style."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text

from lib import figures

POINTS = np.array([[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]])
SCORES = np.array([1.0, 0.9, 0.0])
CHOSEN = np.array([True, False, False])
X = np.arange(1, 41)


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def boxes_of_words(figure, panel=0):
    """Name and box of each text in a panel, without its leader, in the order of drawing; an arrowhead is no text."""
    figure.canvas.draw()
    written = [text for text in figure.axes[panel].texts if text.get_text()]
    return [(text.get_text(), Text.get_window_extent(text)) for text in written]


def plane(starts=3, records=30, **kwargs):
    paths = np.linspace(0, 2, records)[:, None, None] * np.ones((1, starts, 2)) + np.arange(starts)[None, :, None]
    figure = figures.plane(paths, POINTS, SCORES, CHOSEN, **kwargs)
    figure.canvas.draw()
    return figure


def curves(series, **kwargs):
    figure = figures.curves(X, series, "iteration", "1 - cos", **kwargs)
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize("starts", [1, 6])
def test_plane_draws_one_path_a_start_with_its_arrowhead_and_every_score(starts):
    ax = plane(starts, window=(-1, 4.5, -1, 4.5)).axes[0]
    drawn = [line.get_xydata() for line in ax.lines if line.get_color() == figures.VIOLET]
    assert [len(path) for path in drawn] == [30] * starts
    heads = [text.xy for text in ax.texts if text.get_text() == ""]
    ends = [min(start + 2, 4.5) for start in range(starts) if start < 4.5]  # or where it leaves the window
    np.testing.assert_allclose(heads, np.array([ends, ends]).T, atol=0.05)
    assert [text for text in texts(ax.figure) if "score" in text] == ["score 1", "score 0.9", "score 0"]
    rings, *tokens = ax.collections
    assert len(rings.get_facecolor()) == 0  # they cover no key
    assert all(rings.get_zorder() < token.get_zorder() for token in tokens)


def test_plane_draws_tokens_as_what_they_are():
    points, kinds = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), ["local", "optimal", "other"]
    ax = figures.plane(np.ones((5, 1, 2)), points, SCORES, kinds).axes[0]
    assert [to_hex(mark.get_facecolor()[0]) for mark in ax.collections[1:]] == [figures.KINDS[kind] for kind in kinds]
    assert [len(mark.get_paths()[0].vertices) for mark in ax.collections[1:]] == [5, 11, 5]
    with pytest.raises(ValueError, match="chosen has best: give True or False"):
        figures.plane(np.ones((5, 1, 2)), points, SCORES, ["best", "local", "other"])


def test_plane_draws_each_path_in_the_colour_of_what_it_ends_at():
    ax = plane(outcomes=["global", "local", "local"]).axes[0]
    drawn = [line.get_color() for line in ax.lines if len(line.get_xdata()) == 30]
    assert drawn == [figures.GREEN, figures.VERMILION, figures.VERMILION]
    with pytest.raises(ValueError, match="outcomes has shape"):
        plane(outcomes=["global"])


@pytest.mark.parametrize(
    "direction",
    [(1, 0), (0, -2), (3, 1), (1e-9, -1)],
    ids=str,
)
def test_ray_in_any_direction_ends_at_the_frame(direction):
    figure = plane(rays={"SVM": direction}, window=(-2, 3, -1, 4))
    assert "SVM" in texts(figure)
    end = next(line for line in figure.axes[0].lines if line.get_ls() == "--").get_xydata()[-1]
    assert np.isclose(end, [-2, -1]).any() or np.isclose(end, [3, 4]).any()
    np.testing.assert_allclose(end / np.linalg.norm(end), direction / np.linalg.norm(direction), atol=1e-8)


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


def test_many_trials_are_a_median_and_a_band_of_few_points_and_a_given_interval_is_drawn():
    t = np.arange(1, 5001)
    series, given = {"GD": np.arange(1, 12) / t[:, None], "share": 1 / t}, {"share": (0.5 / t, 1.5 / t)}
    ax = figures.curves(t, series, "t", "y", bands=given).axes[0]
    median = ax.lines[0].get_xydata()
    assert len(median) <= 150
    np.testing.assert_allclose(median[:, 1], 6 / median[:, 0])
    assert (median[0, 0], median[-1, 0]) == pytest.approx((1, 5000))
    for band, ends in zip(ax.collections, ((2 / 5000, 10), (0.5 / 5000, 1.5)), strict=True):
        heights = band.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == pytest.approx(ends)


def test_each_of_many_trials_is_a_curve_where_one_asks_for_it():
    y = np.arange(1, 5) / X[:, None]
    ax = curves({"local": y, "global": 10 * y[:, :1]}, each=True).axes[0]
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], np.hstack([y, 10 * y[:, :1]]).T)
    assert [line.get_color() for line in ax.lines] == 4 * [figures.VERMILION] + [figures.GREEN]
    assert not ax.collections
    assert texts(ax.figure) == ["local", "global"]


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


def test_histogram_stacks_what_is_inside_its_edges():
    samples = {"few": [0.05, 0.15, 0.15], "none": [], "more": [0.15, 0.25, 0.25, 9.0, -1.0]}
    ax = figures.histogram(samples, [0.0, 0.1, 0.2, 0.3], "gap", "runs").axes[0]
    few, more = ax.collections
    counted = np.array([[1, 2, 0], [1, 3, 2]])
    for k, height in itertools.product(range(3), (0.5, 1.5, 2.5)):
        place = (0.05 + 0.1 * k, height)
        assert few.get_paths()[0].contains_point(place) == (height < counted[0, k])
        assert more.get_paths()[0].contains_point(place) == (counted[0, k] < height < counted[1, k])
    np.testing.assert_array_equal([ax.get_xlim(), ax.get_ylim()], [(0, 0.3), (0, 1.05 * 3)])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(samples)
    assert figures.histogram({"one": []}, [0.0, 1.0], "gap", "runs").axes[0].get_legend() is None


def test_agreement_shows_by_how_much_numbers_differ():
    values = np.linspace(-3, 2, 20)
    figure = figures.agreement(values, values + 1e-9 * np.sin(values), "predicted", "measured - predicted")

    drawn = figure.axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(drawn, np.stack([values, 1e-9 * np.sin(values)], axis=1), atol=1e-15)
    low, high = figure.axes[0].get_ylim()
    assert -2e-9 < low < 0 < high < 2e-9


COLUMNS, ROWS = np.arange(2, 10), np.arange(0, 60, 5)
SLOPE = 1.0 * (ROWS[:, None] < 4 * COLUMNS)


def heatmap(values, **kwargs):
    figure = figures.heatmap(COLUMNS, ROWS, values, "d", "rows", **{"label": "fraction", **kwargs})
    figure.canvas.draw()
    return figure


def test_heatmap_puts_rows_upwards_and_columns_to_the_right():
    values = np.arange(SLOPE.size).reshape(SLOPE.shape)
    figure = heatmap(values, title="all")
    image = figure.axes[0].collections[0]
    np.testing.assert_array_equal(image.get_array(), values)
    ax = figure.axes[0]
    assert ax.get_ylim() == (0, 12)
    for axis, centres in ((ax.xaxis, COLUMNS), (ax.yaxis, ROWS)):
        for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
            assert np.interp(place, np.arange(len(centres)) + 0.5, centres) == pytest.approx(float(label.get_text()))
        assert len(axis.get_ticklocs()) >= 3
    assert figure.axes[1].get_xlabel() == "fraction"
    assert image.get_clim() == (0, values.size - 1)


def test_regions_cover_their_cells_and_bear_their_names():
    kinds = np.where(ROWS[:, None] > 50, np.nan, SLOPE)
    figure = figures.regions(
        COLUMNS, ROWS, kinds, ["local", "global", "absent"], "d", "rows", {"edge": (COLUMNS, 4 * COLUMNS)}
    )
    figure.canvas.draw()
    ax = figure.axes[0]
    assert (ax.get_xlim(), ax.get_ylim()) == ((1.5, 9.5), (-2.5, 57.5))
    assert set(texts(figure)) == {"local", "global", "edge"}
    for kind, patch in enumerate(ax.patches):
        inside = patch.get_path().contains_points(np.stack(np.meshgrid(COLUMNS, ROWS), axis=-1).reshape(-1, 2))
        np.testing.assert_array_equal(inside.reshape(SLOPE.shape), kinds == kind)
    assert [to_hex(patch.get_facecolor()) for patch in ax.patches] == [
        figures.KINDS[name] for name in ("local", "global")
    ]


SENTENCES = [["[CLS]", "a", "truly", "dreadful", "film"], 3 * ["the", "film", "about", "a", "quiet", "town", "was"]]
ATTENTION = [np.arange(10).reshape(2, 5) / 10, np.linspace(0, 1, 42).reshape(2, 21)]


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


PLANE = {"paths": np.ones((5, 1, 2)), "points": POINTS, "scores": SCORES}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.plane(**PLANE, chosen=CHOSEN, window=(100, 101, 100, 101)),
        lambda: figures.plane(**PLANE, chosen=np.ones(3, bool)),
        lambda: figures.plane(**PLANE, chosen=np.zeros(3, bool)),
        lambda: figures.heatmap(COLUMNS, [0], SLOPE[:1], "d", "rows", label="fraction", level=0.5),
        lambda: figures.sentences([["incomprehensibilities" * 3, "a"]], [[[0.0, 1.0]]], ["end"]),
        lambda: pictures(DIGITS[:1], 0 * MAPS[:1, :1], ["start"]),
    ],
    ids=["all outside", "all chosen", "none chosen", "one row", "a long word", "no attention"],
)
def test_odd_input_is_drawn(draw):
    draw().canvas.draw()


# Machado, Oliveira and Fernandes 2009, the whole of deuteranopia and protanopia, on linear RGB
EYES = {
    "all cones": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def light_of(colour):
    parts = np.array(to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("eye", EYES)
def test_colours_are_distinct_for_every_eye(eye):
    seen = np.array([light_of(colour) for colour in figures.PALETTE]) @ np.transpose(EYES[eye])
    seen = seen.clip(0, 1) ** (1 / 2.2)
    distances = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in itertools.combinations(range(7), 2)}
    assert min(far for pair, far in distances.items() if max(pair) < 4) > 0.15
    assert min(distances.values()) > 0.1


def test_a_name_has_one_colour_in_all_panels_and_no_other_name_has_it():
    upper, lower = figures.panels(2)
    figures.curves(X, {"constant": 1 / X, "GD": 2 / X, "1 / t": 3 / X}, "t", "y", ax=upper)
    figures.curves(X, {"GD": 2 / X, "new": 4 / X, "constant": 1 / X}, "t", "y", ax=lower)
    first, second = ({text.get_text(): text.get_color() for text in ax.texts} for ax in (upper, lower))
    assert (first["constant"], first["GD"]) == (second["constant"], second["GD"])
    assert len(set((first | second).values())) == 4


@pytest.mark.parametrize("side", [(0, 1), (1, 0), (1, 1), (-1, 1)], ids=str)
def test_names_of_tokens_cover_no_path_and_no_token(side):
    paths = np.linspace(0, 2, 60)[:, None, None] * np.array(side, float)
    figure = figures.plane(paths, POINTS, SCORES, CHOSEN, window=(-2, 3, -1, 4), rays={"SVM": (1, 0.2)})
    boxes = [box for _, box in boxes_of_words(figure)]
    ax = figure.axes[0]
    marks = ax.transData.transform(np.concatenate([paths[:, 0], POINTS, np.outer(np.linspace(0, 3, 90), (1, 0.2))]))
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(text.get_bbox_patch() is None for text in ax.texts)


def test_a_name_stands_at_the_end_of_its_curve():
    early = np.where(X <= 10, 1 / X, np.nan)
    ax = curves({"early": early, "late": 20 / X}).axes[0]
    boxes = dict(boxes_of_words(ax.figure))
    for name, end in (("early", (10, early[9])), ("late", (40, 20 / 40))):
        x, y = ax.transData.transform(end)
        nearest = np.clip((x, y), boxes[name].min, boxes[name].max)
        assert np.linalg.norm(nearest - (x, y)) < 20 * ax.figure.dpi / 72


@pytest.mark.parametrize("count", [2, 3, 6])
def test_nothing_is_cut_off_and_no_two_names_overlap(count):
    with plt.rc_context():
        figures.theme()
        for ax in figures.panels(2):
            series = {f"a name of length {k}": 1 / X ** (1 + k / 9) for k in range(count)}
            figure = figures.curves(X, series, "x", "y", references={"$1/t$": 1 / X}, ax=ax, heading="heading")
            assert {text.get_text() for text in ax.texts} >= {*series, "$1/t$"}
        boxes = [box for k in range(2) for _, box in boxes_of_words(figure, k)]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 + 1 for box in boxes)
        assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 + 1 for box in boxes)
