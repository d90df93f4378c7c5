"""Everything that touches RQ: the worker that runs many jobs on one event loop, the job function, submitting."""
