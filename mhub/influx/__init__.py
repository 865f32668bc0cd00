"""The broker's numbers for InfluxDB, pushed over HTTP.

    timer -> push (buffer, retries) -> http -> InfluxDB 1.x, 2.x, 3.x, or what speaks like them

lines   points as line protocol
points  the numbers of one moment as points
push    what is sent when, and what becomes of what the server did not take
http    one request
"""
