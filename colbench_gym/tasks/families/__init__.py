"""Hand-written families of embedded tasks, one module per line of business."""
