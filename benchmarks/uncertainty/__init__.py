"""How honest intervals and probabilities are: coverage, width and calibration, on rows whose truth is known.

    python -m benchmarks.uncertainty run --jobs 2        every fit; goes on where it was stopped
    python -m benchmarks.uncertainty tables              tables and pictures into results/uncertainty

The default model is fitted to the candidate sets of a case's training rows, and gives intervals for its test rows. The
same model told the true labels gives ordinary conformal intervals, which widths are compared with. Cases, data exports
and lines are those of `benchmarks.identification`. Tables are made from lines alone.
"""
