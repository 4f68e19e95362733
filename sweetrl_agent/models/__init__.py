"""Loads pretrained models and builds the tiny Llama."""
