"""Experiments that live for weeks: a spec in TOML, tables in and out, one database, rounds of design and outcomes."""
