"""plr on a Ray cluster.

Ray is the scheduler, the transport and the cluster manager; nothing here is home-made. `session` connects to a cluster
or starts one on this machine. `grid` does the cells of a benchmark as Ray tasks, and `tasks` is what runs on their
workers. `fitting` trains a model by Ray Train, `workers` is what its workers do, and `rounds` how they read. Ray is
imported where it is used: without the extra ``ray`` the rest of plr works as ever.
"""

from __future__ import annotations
