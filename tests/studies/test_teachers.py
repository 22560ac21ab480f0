"""Sparse teachers and what they choose."""

import pytest
import torch

from studies import teachers


def test_as_many_entries_as_asked_for_are_not_zero():
    found = teachers.sparse_entries(3, 50, 16, torch.Generator().manual_seed(0))
    assert (found != 0).sum(-1).unique().tolist() == [3]
    assert found.unique().tolist() == [-1, 0, 1]
    assert (found != 0).any(0).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_choices_are_the_teachers_but_for_the_noise(noise):
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, 16, generator=generator, dtype=torch.float64)
    data = teachers.taught_choices(matrices, 500, 5, generator, noise)
    logits = torch.einsum("bntd,bde,bne->bnt", data.tokens, matrices.view(3, 4, 4), data.queries)
    wrong = (logits.argmax(-1) != data.chosen).double().mean().item()
    assert wrong == 0 if noise == 0 else abs(wrong - noise) < 0.05
