"""Figures and pages people look at."""
