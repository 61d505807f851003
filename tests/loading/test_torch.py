from __future__ import annotations

import sys

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from partita.errors import UnsupportedModelError, UsageError
from partita.loading import torch as torch_loading
from partita.loading.stage import load

pytestmark = pytest.mark.engine("torch")


@pytest.fixture(scope="module")
def torch():
    import torch

    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="module")
def module(torch):
    torch.manual_seed(0)

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x):
            return torch.softmax(self.linear(x), -1)

    return Small().eval()


def test_a_module_is_exported_with_its_numbers(torch, module, capfd):
    x = torch.randn(2, 4)
    loaded = load(module, (x,))
    assert loaded.source == "<torch Small>"
    (found,) = ReferenceEvaluator(ir.to_proto(loaded.ir)).run(
        None, {str(loaded.inputs[0].name): x.numpy()}
    )
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5)
    assert capfd.readouterr() == ("", "")


def test_one_tensor_may_come_without_a_tuple(torch, module):
    assert len(load(module, torch.randn(2, 4)).inputs) == 1


def test_shapes_may_be_dynamic(torch, module):
    loaded = load(
        module, (torch.randn(2, 4),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
    )
    batch, width = loaded.inputs[0].shape
    assert isinstance(batch, ir.SymbolicDim)
    assert width == 4


def test_weights_are_copied(torch, module):
    loaded = load(module, (torch.randn(2, 4),))
    before = loaded.hash
    held = {name: v.const_value.numpy().copy() for name, v in loaded.parameters.items()}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    try:
        for name, array in held.items():
            np.testing.assert_array_equal(loaded.parameters[name].const_value.numpy(), array)
        assert loaded.hash == before
    finally:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.sub_(1)


def test_an_exported_program_is_taken_alone(torch, module):
    program = torch.export.export(module, (torch.randn(2, 4),))
    assert load(program).source == "<torch ExportedProgram>"
    with pytest.raises(UsageError, match="brings its inputs and shapes along"):
        load(program, (torch.randn(2, 4),))


def test_a_module_needs_example_inputs(module):
    with pytest.raises(UsageError, match="Small is a torch module: partita traces it with example"):
        load(module)


def test_what_torch_cannot_export_is_refused_in_its_words(torch):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return x + len(input.__name__) if x.sum() > 0 else x

    with pytest.raises(UnsupportedModelError, match=r"<torch Odd>: PyTorch cannot export it: \w"):
        load(Odd(), (torch.randn(2),))


def test_a_script_module_is_refused(torch, module):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(module, torch.randn(2, 4))
    with pytest.raises(UnsupportedModelError, match="is a TorchScript module"):
        load(script, (torch.randn(2, 4),))


def test_example_inputs_need_a_module(tmp_path):
    with pytest.raises(UsageError, match="go with a torch module; the source is a PosixPath"):
        load(tmp_path, ())


def test_other_objects_are_told_apart_without_torch():
    class Module:
        pass

    assert not torch_loading.is_torch(Module())
    assert not torch_loading.is_torch(ir)
    assert "torch" in sys.modules or not torch_loading.is_torch(3)
