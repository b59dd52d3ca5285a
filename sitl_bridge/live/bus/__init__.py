"""MQTT: each vehicle publishes its state, health and events; commands steer the run.

The topic tree, ``<run>`` being the name of the run directory or the ``run=`` of the broker's URL::

    sitl/<run>/status                           retained; last will; QoS 1       Status
    sitl/<run>/clock                            retained; at the state's rate    Clock
    sitl/<run>/world                            retained; when it changes        WorldState
    sitl/<run>/vehicle/<name>/state             retained; 10 Hz of wall time     VehicleState
    sitl/<run>/vehicle/<name>/health            retained; on change, 1 Hz        VehicleHealth
    sitl/<run>/vehicle/<name>/event             QoS 1                            Event
    sitl/<run>/reply/<request id>               QoS 1                            Reply
    sitl/<run>/command/<kind>                   wind pace pause resume step formation land
    sitl/<run>/vehicle/<name>/command/<kind>    a fault's kind, teleport arm takeoff velocity goto sticks
                                                land abort

Messages are JSON with a ``version``; ``sitl-bridge schema bus`` prints their JSON Schema.  Rates are
in wall time, because subscribers run in wall time: a run at 20 times real time publishes no more than one at
real time.  All vehicles together publish at most 250 states a second.

A command has ``version`` 1 and a ``request_id`` chosen by the sender, 1 to 64 of ``A-Za-z0-9_.-``.  The reply
on that id's topic gives the simulated time of execution or the reason of a refusal.  An id is executed once
per run: a sender without a reply sends the command again with the same id and receives the first reply
again.  Retained commands are ignored, and none is queued while the bus is disconnected.  A bus accepts 20
commands a second, 50 at once, and answers as many refusals; the status counts the others.

At the end of a run its retained messages are removed except the status, which becomes offline.

The MQTT client (client.py) and the embedded broker (broker.py) are separate processes with low priority.  The
simulation never waits for the bus: it supplies about ten snapshots a second and receives the accepted
commands, however many are sent.  The embedded broker serves clients on this machine; with a password
(SITL_BRIDGE_BUS_PASSWORD or ``password_file=``) only clients that log in as ``sitl``.  The two processes
exchange JSON lines (client_link.py).
"""
