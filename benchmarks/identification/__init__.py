"""How well true labels are identified: fixed cases, methods, and tables made from stored lines.

    python -m benchmarks.identification run --jobs 2          every case of every table; goes on where it was stopped
    python -m benchmarks.identification tables                all tables and pictures into results/identification
    python -m benchmarks.identification run mechanisms        the cases of one table
    python -m benchmarks.identification tables mechanisms     one table
    python -m benchmarks.identification export                data as Parquet, for a machine without the data packages

A *case* is a data set, split and hidden among false labels in a fixed way; a *method* is given a case's training rows
and predicts its test rows; a *line* is what was measured of one method on one case. Tables are made from lines alone.
"""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Environment variables that keep a process to one thread; read when numerical libraries are loaded."""
