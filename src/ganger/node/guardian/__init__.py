"""The guardian: a small process apart from the node that owns the commands, and ends them when nobody else can.

Why there is one. A node that is stopped, starved or killed cannot end its children, and a lease that ran out while they
go on means two executions at once. A node that is restarted must not take hours of work with it. Both want a parent for
the commands that does little, changes seldom, and outlives the node. So it speaks a versioned protocol, reads a
clock and a few pipes, and knows nothing of stores, queues or functions.

What can go wrong, and why this is right:

- *A command hides its children*: in the background, in another session, daemonised, with a clean environment, deaf to
  TERM, or forking without end. The guardian is their subreaper: whoever loses its parent becomes its child and bears a
  mark that is inherited through everything (`mark`). Trees are stopped before they are killed, so that they cannot
  outgrow the killer (`tree`). Where a cgroup may be had, whoever goes on for more than a moment has one (`isolation`).
- *An end is told too early*, and the slot is given to another while the last child still writes. An end is told when
  the process is dead, no orphan bears the mark, and the cgroup is empty (`killing`); not when a signal was sent.
- *An end is lost.* It is in the journal before it is told, and told again to each new node until one says that it has
  it safe (`books`, `journal`).
- *A node is gone and its lease with it.* Each attempt carries the moment until which its lease can be trusted, on a
  clock that counts suspended time. At that moment it is killed, without grace: the grace was the lease.
- *Two nodes command.* The one with the higher epoch is master; the other is told so and disconnected (`master`).
- *A program writes faster than anybody reads.* Its pipes are read at once, into files; what goes over the cap is
  counted and dropped. Nobody who reads those files is ever waited for (`taps`).
- *The disk is slow.* Syncs happen in a thread, and only for ends that no node has acknowledged in time (`books`).
- *Programs are many and short.* A beginning is told only when it is a few milliseconds old: most are told by their end
  alone (`keep`). It stands in the journal before that, so that an attempt is never lost between the two. What costs as
  much as such a program itself, a cgroup and a descriptor of its process, it is given when its beginning is told.
- *The guardian itself is killed.* The node sees the connection break and starts another. That one finds everything that
  bears the mark, kills it, waits until it is gone, and only then takes orders (`recovery`). If node and guardian die
  together, the next node's guardian does the same. Their attempts have crashed, all of them: one may have done it.
- *The guardian is stopped.* The node pings it, and kills it when it does not answer (`link`).

What it cannot do: end a process that the kernel will not end (it tells the node, and the slot stays taken), end what a
plain user started through sudo as another user, or see what a program has asked another service to run for it. While
a program's file is fetched from a filesystem that hangs, the guardian hangs with it.
"""
