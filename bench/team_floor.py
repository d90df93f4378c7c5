"""The floor of one team turn: submit -> lead -> three members -> lead -> result between bare processes.

Each hop is a list push that wakes a blocked pop; the three reports are counted down by the member's own script.
Nothing is leased, fenced or kept: no durable system can be faster on this client.
"""

import os
import sys

import redis

MEMBERS = ("m0", "m1", "m2")

REPORT = """
redis.call('RPUSH', 'reports:' .. ARGV[1], ARGV[2])
if redis.call('DECR', 'waiting:' .. ARGV[1]) == 0 then redis.call('RPUSH', 'lead', 'resume ' .. ARGV[1]) end
return 1
"""


def lead(server):
    while True:
        word, _, run = server.blpop(["lead"], 0)[1].decode().partition(" ")
        pipeline = server.pipeline()
        if word == "run":
            pipeline.set(f"waiting:{run}", len(MEMBERS))
            for member in MEMBERS:
                pipeline.rpush(member, run)
        else:
            pipeline.lrange(f"reports:{run}", 0, -1)
            pipeline.delete(f"reports:{run}", f"waiting:{run}")
            pipeline.rpush("results", run)
        pipeline.execute()


def member(server, name):
    report = server.script_load(REPORT)
    while True:
        server.evalsha(report, 0, server.blpop([name], 0)[1], name)


if __name__ == "__main__":
    connection = redis.Redis.from_url(os.environ["BENCH_URL"], socket_timeout=None)
    role = sys.argv[1]
    connection.sadd("ready", role)
    lead(connection) if role == "lead" else member(connection, role)
