"""A record of what plr answers, to be compared with after the code has been changed and the answers should not be.

    python -m benchmarks.golden record             write benchmarks/golden/record, about 25 minutes on two cores
    python -m benchmarks.golden compare            compare with it; exit code 1 where something differs
    python -m benchmarks.golden record --out DIR   a record of another revision or machine, for compare --record DIR

Three parts, chosen by --only: `library` has predictions, weights, probabilities, intervals and errors of every learner
with every weighting, start, loss and kind of source; `command` has output, exit codes and files of the command line;
`committee` has the default's test errors on fourteen cells, since its draws turn on rounding.

Numbers must agree within a tolerance, and exit codes, types of errors, columns and files exactly. Wording may change:
what reads differently is listed and does not count as a difference. `features.csv` names every feature of README and
docs and the tests that hold it.
"""
