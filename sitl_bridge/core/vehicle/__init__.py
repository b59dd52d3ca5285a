"""One vehicle as data: the airframe, its controller, its control effectiveness and its packed record."""
