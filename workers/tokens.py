"""Reads the tokens out of `/generate` answers, whole or streamed, ours or SGLang's."""

from typing import Any

import msgspec

from workers.errors import EncoderFailed, EncoderLost, EncoderUnreachable

# Our own encoder server's words for work that it began and lost, late in a stream.
LOST = ("work_lost", "worker_out_of_memory")


class TokenReader:
    """Collects the new tokens of each row of one call; raises EncoderFailed for anything odd."""

    def __init__(self, rows: int) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(rows)]

    @property
    def done(self) -> int:
        """How many tokens every row has at least."""
        return min(map(len, self.tokens))

    def read_whole(self, body: bytes) -> None:
        """An answer that is not streamed: one object, or a list of them."""
        answer = _decoded(body)
        answers = answer if isinstance(answer, list) else [answer]
        if len(answers) != len(self.tokens):
            raise EncoderFailed(f"The encoder gave {len(answers)} answers.")
        for row, part in enumerate(answers):
            self._take(row, part)

    def read_line(self, line: str) -> bool:
        """One line of a stream; says whether it was the last."""
        if not line.startswith("data:"):
            return False
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return True
        chunk = _decoded(data)
        row = chunk.get("index", 0) if isinstance(chunk, dict) else None
        if type(row) is not int or not 0 <= row < len(self.tokens):
            raise EncoderFailed("The encoder's stream names a row that was not sent.")
        self._take(row, chunk)
        return False

    def _take(self, row: int, answer: Any) -> None:
        match answer:
            case {"output_ids": list(ids)} if all(type(token) is int for token in ids):
                meta = answer.get("meta_info")
            case {"error": {"code": str(code)}} if code in LOST:
                raise EncoderLost
            case {"error": _}:
                raise EncoderFailed("The encoder answered an error.")
            case _:
                raise EncoderFailed("The encoder's answer has no list of output_ids.")
        facts: dict[str, Any] = meta if isinstance(meta, dict) else {}
        # All tokens so far, or with SGLang's --incremental-streaming-output the latest only.
        count = facts.get("completion_tokens")
        is_part = type(count) is int and len(ids) < count
        self.tokens[row] = self.tokens[row] + ids if is_part else ids
        self._check_finish(facts.get("finish_reason"))

    def _check_finish(self, reason: Any) -> None:
        if isinstance(reason, dict) and reason.get("type") == "abort":
            if reason.get("status_code") == 503 and not any(self.tokens):
                raise EncoderUnreachable("The external encoder is busy.")
            raise EncoderFailed("The encoder gave the work up.")


def _decoded(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise EncoderFailed("The encoder's answer is not JSON.") from error
