"""Where actions live: named ones, numbers, and products of both."""

from cobed.spaces.base import AbstractSpace, label_columns
from cobed.spaces.box import Box
from cobed.spaces.discrete import Discrete
from cobed.spaces.product import Product

__all__ = ["AbstractSpace", "Box", "Discrete", "Product", "label_columns"]
