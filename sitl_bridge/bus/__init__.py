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
    sitl/<run>/vehicle/<name>/command/<kind>    fault jam spoof rotor teleport abort

Messages are JSON with a ``version``; their JSON Schemas are in ``schemas/`` beside this file.  Rates are of
wall time, since those who look live in it: a run at 20 times real time publishes no more than one at 1.  All
vehicles together publish at most 250 states a second.

A command has ``version`` 1 and a ``request_id`` of the sender's choice, 1 to 64 of ``A-Za-z0-9_.-``, on
whose reply topic the answer comes: executed at which simulated time, or refused and why.  An id is executed
once a run: whoever gets no answer sends the command again with the same id, and gets the first answer once
more.  Commands that a broker has retained are ignored, and none waits for a bus that is away.  A bus takes 20
commands a second, 50 at once, and answers as many refusals; how many more there were is in the status.

When a run ends, its retained messages are removed but the status, which then says offline.

The bus speaks MQTT in a process of its own (client.py), the embedded broker in another (broker.py), both
nice to everybody else.  The simulation is never waited for nor made to wait; its program is asked for a look
some ten times a second and hears of the commands that are taken, however many come.  The embedded broker
serves whoever is on this machine; with a password (SITL_BRIDGE_BUS_PASSWORD or ``password_file=``) only those
who log in as ``sitl`` with it.  Between the two processes there are JSON lines (link.py).
"""
