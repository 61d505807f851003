"""What operators are: look-ups in ONNX's own schemas."""
