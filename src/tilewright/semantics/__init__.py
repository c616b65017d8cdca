"""What the tile language means: types, promotion, broadcasting, and which ops an operation of the user becomes."""
