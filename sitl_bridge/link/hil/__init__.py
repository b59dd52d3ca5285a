"""The simulator link: MAVLink frames over TCP, and the lockstep with PX4 or another flight stack.

Lockstep means that simulated time advances by one step (4 ms) only after every flight stack has answered
the frames of the step before.  A flight stack takes its time from HIL_SENSOR.time_usec, so it cannot tell
how fast simulated time runs, and results do not depend on the speed of the machine.

The lockstep thread (server.py) and the compiled loop that it calls (loop.py)::

    listen on one TCP port per vehicle
    until the server is closed:
        accept connections                           one client per port; a second one is refused
        run the actions that are due                 commands from other threads, scheduled events
        sample custom sensors
        if no flight stack is connected, or time has not begun, or it is paused, or a mission limits it:
            look for closed connections; wait 20 ms; continue
        run the loop up to the next event, time limit or single step
        after a reason to return, handle it          see below
        write the truth log

    the loop:
        while time < the limit:
            until every awaited answer is there:     at most ``timeout`` of wall time
                receive; decode HIL_ACTUATOR_CONTROLS
            apply the commands to the vehicles       held over the whole step
            return if another thread asks for it
            sleep until the pace allows the next step
            advance all vehicles by one step         wind, motors, forces, integration
            for each vehicle: sample its sensors; send its frames    HIL_SENSOR first: it sets PX4's clock
            log the step; draw random numbers        while the flight stacks compute

**The answer** to a frame is a HIL_ACTUATOR_CONTROLS with exactly that frame's time stamp.

Each link has one state (link_state.py has the diagram).  What happens if a flight stack is

late, or does not answer
    Before its first answer (STARTING): PX4 leaves its first frames unanswered, so frames go out at real
    time.  The built-in stack leaves none; where the server knows that it comes, lockstep begins at once.
    After its first answer (SETTLING): time waits until no answer comes for 20 ms; then no answer to an
    older frame is under way, and lockstep begins.
    In lockstep: time waits for ``timeout`` (1 s of wall time), and up to ten times longer while its process
    computes or waits for a processor (busy machine, same host).  Then ``on_stall`` decides.
    ``continue``: if it has read its frames (SILENT: for example, its gyroscope has failed and its rate loop
    has stopped), frames go on at real time, so that its timeouts expire and it can recover; its last
    commands hold.
    If it has not read them (OVERDUE: stopped by a signal or a debugger), its clock stands still, so time
    waits.
    ``wait``: time waits in both cases.  ``abort``: the run ends with an error.
    ``leave``: if other vehicles are in lockstep, time goes on with them (LEFT_BEHIND).  Its frames are kept
    as long as its socket has room (some megabytes, a minute and more); when it answers again, time waits
    while it works through them.  Frames that found no room are lost.
    Answers come back: after 25 steps answered in a row, SETTLING and lockstep again.  A single stray answer
    changes nothing, or time would wait again and again.
    Out of lockstep, and it stops reading (FROZEN): time waits once 0.25 s of frames lie unread.
    A flight in which time went on without answers has failed, unless a fault that was injected explains it
    (analysis/evaluation/verdict.py); one in which time waited has not.

    PX4 terminates the flight: its simulated output driver publishes nothing more (pwm_out_sim), and the link
    has no other message that says so (HEARTBEAT comes once, on connecting).  The last commands hold, as in
    PX4's SIH and in Gazebo Classic; whether they stop the motors is a race within PX4.

gone
    It closed the connection, or its process was killed: its vehicle's motors stop, as without an ESC signal,
    and the other vehicles fly on; if there is none, time stands still.  A new flight stack may connect to the
    same port at any time.  Its vehicle is then put back to its start, so that its estimator does not begin in
    free fall: position, attitude, motors, battery, payload and sensors as at the start, with the same noise,
    and without faults.  Time, wind, events to come and other vehicles go on; time never jumps back.  (PX4
    itself never reconnects.)
    Time begins when every vehicle has a flight stack, or when ``begin`` is called.

wrong
    A frame with a wrong checksum, of an unknown message or of MAVLink 1, and any other byte, is skipped,
    counted and reported once per kind; the next valid frame is found wherever it begins.  It is not an
    answer.
    A motor command that is not finite counts as 0; one outside -1 to 1 is limited.
    An older time stamp: the commands hold, but time still waits for the answer to the last frame.
    A later time stamp: the same, and it does not count as an answer either; a flight stack with its own
    clock runs at real time, like a silent one.

And if a vehicle's motion diverges (a state that is not finite), nothing of that step is sent or logged, and
the run ends with an error that names the vehicle and the time.  If the recorder, a custom sensor or an action
fails, the run continues without it and reports the error.
"""
