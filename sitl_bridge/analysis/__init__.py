"""From a recording to figures, pages and files: evaluation, report, replay, export."""
