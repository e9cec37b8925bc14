"""A scripted worker as a process of its own, so that it can be killed and stopped for real.

It writes a line when it begins a request and one when it has answered it:
`begin PATH PROMPT`, `end PATH PROMPT`.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tests.support.scripted_worker import ScriptedWorker, answer


async def main(port, task_type, seconds, log):
    """Serves until it is killed."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(word, request):
        os.write(out, f"{word} {request.path} {request.texts['prompt']}\n".encode())

    async def script(worker, request, writer):
        note("begin", request)
        await asyncio.sleep(seconds)
        await answer(worker, request, writer)
        note("end", request)

    worker = ScriptedWorker(task_type)
    worker.port, worker.script = port, script
    await worker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]))
