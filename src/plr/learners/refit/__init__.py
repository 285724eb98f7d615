"""A regressor of scikit-learn's kind, fitted again and again to weighted candidates."""
