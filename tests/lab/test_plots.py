import io

import pytest
from PIL import Image

from stairwise.lab.api import figure_bytes
from stairwise.lab.contract.plots import COLUMN, house_style, subplots, titled

LONG = "4 hops are learnt in 1 of 16 runs on the mixture and in 0 of 16 on 4 hops alone: log-rank p = 0.32, " * 2


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_long_title_and_a_long_caption_stay_inside_the_figure(columns):
    with house_style():
        figure, _ = subplots(figsize=(columns * COLUMN, 3))
        titled(figure, LONG, LONG)
        figure.canvas.draw()
        for text in (figure._suptitle, figure._supxlabel):
            extent = text.get_window_extent()
            assert extent.x0 >= 0
            assert extent.x1 <= figure.bbox.width
        figure_bytes(figure, ".png")  # closes it


def test_a_png_has_a_palette_and_the_pixels_of_its_size():
    with house_style():
        figure, axes = subplots(figsize=(COLUMN, 2))
        axes.plot([0, 1], [0, 1])
        picture = Image.open(io.BytesIO(figure_bytes(figure, ".png")))
    assert picture.mode == "P"
    assert picture.size == (680, 400)
