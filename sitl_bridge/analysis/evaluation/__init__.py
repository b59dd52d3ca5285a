"""From a recording to values: flights, their measures and the verdict on them."""
