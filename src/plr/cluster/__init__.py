"""plr on a Ray cluster.

Ray is the scheduler, the transport and the cluster manager; nothing here is home-made. `session` connects to a cluster
or starts one on this machine, `grid` does the cells of a benchmark as Ray tasks, and `tasks` is what runs on the
workers. Ray is imported where it is used: without the extra ``ray`` the rest of plr works as ever.
"""

from __future__ import annotations
