"""LMRL-Gym (Abdulhai et al., arXiv:2311.18232): its eight tasks as Gymnasium text environments, written anew.

A game has a folder; its class is its manual. `game` has what they share, `data` plays the behaviour policies that make the paper's data sets.
"""
