"""How well intervals and probabilities hold: fixed fits, measured once, and tables made from stored lines.

    python -m benchmarks.uncertainty run --jobs 2             every part that needs nothing more; goes on where stopped
    python -m benchmarks.uncertainty run --part laws --jobs 2 --limit-seconds 420
                                                              one part; starts no fit after seven minutes
    python -m benchmarks.uncertainty run --part real --data FOLDER          tables as `python -m benchmarks.real` reads
    python -m benchmarks.uncertainty run --part time --against CHECKOUT     times against another checkout of plr
    python -m benchmarks.uncertainty tables                   tables and pictures of what was measured
    python -m benchmarks.identification export                data as Parquet, for a machine without the data packages

Parts: ``seven``, the paper's data sets; ``tables``, eight tables held back from making the learners; ``final``, six
that nobody looked at before; ``laws``, made-up laws of noise; ``guaranteed``, what tolerance intervals promise;
``real``, candidate sets of real joins with checked rows; ``time``. A *fit* is a model fitted to rows whose labels are
hidden in a fixed way; a *line* is what was measured of it. Fits of all parts are spread over the run, long ones first,
so that one that is stopped has something of everything. ``PLR_REVISION`` says the revision where plr is a copy without
its repository.
"""
