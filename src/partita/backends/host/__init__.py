"""The host: runs every op of ONNX, one at a time, with nothing but numpy and ONNX itself."""

from partita.backends.host.backend import HostBackend
from partita.backends.host.control_flow import Body, control_flow
from partita.backends.host.interpreter import interpret, node_call, operator

__all__ = ["Body", "HostBackend", "control_flow", "interpret", "node_call", "operator"]
