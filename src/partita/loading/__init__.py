"""From a file, bytes or an object of another library to a checked and normalised model."""
