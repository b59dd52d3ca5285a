"""Makes figures, pages and files of a recording: evaluation, report, replay, export."""
