"""Shows runs in three dimensions: a page in the browser, live and from recordings; streams for other viewers.

Everything is read from the run directory, whose recording can be read while it is written.  Live, each page
and stream is a process of its own with low priority (live/run/outlet.py), so it never delays the lockstep.
"""
