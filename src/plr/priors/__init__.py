"""What makes a candidate believable before the model is asked: given, or learned from checked rows."""
