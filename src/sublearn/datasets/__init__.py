"""Data sets: real samples with labels."""

from sublearn.datasets._dataset import Dataset
from sublearn.datasets._digits import dataset_from_text, digits, mnist, noise

__all__ = ["Dataset", "dataset_from_text", "digits", "mnist", "noise"]
