"""What is measured of algorithms and critics beyond success: credit accuracy, best-of-N, data scaling, other humans."""
