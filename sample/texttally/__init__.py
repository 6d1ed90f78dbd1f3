"""Counts words and sentences, and estimates reading time."""
