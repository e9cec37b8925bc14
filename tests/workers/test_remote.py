"""Encoder servers as a worker sees them, with a stand-in for a stock SGLang at the border."""

import time
from dataclasses import replace

import pytest

from tests.workers.stock import StockEncoder
from tests.workers.support import pattern, running
from workers.engine import PictureRequest
from workers.errors import EncoderFailed, EncoderLost, EncoderUnreachable
from workers.remote import EncoderPool, Patience
from workers.watch import Watch

HURRIED = Patience(connect=1, read=2, health_every=0.1, health=0.3)
TEXT = PictureRequest("a cat", 64, 64, 1, 1.5, 5)
EDIT = PictureRequest("red", 64, 64, 1, 1.5, 5, (pattern(64, 64), pattern(96, 64)))


@pytest.fixture
def stock():
    """A stand-in that behaves, and its URL."""
    encoder = StockEncoder()
    with running(encoder.app) as client:
        encoder.url = str(client.base_url).rstrip("/")
        yield encoder


@pytest.fixture(scope="module")
def encoding(tiny):
    """Encodes requests with the given servers, as a worker of the third kind does."""
    from workers.device import prepare_torch
    from workers.encoder import RemoteEncoder
    from workers.glm_image import load_processor
    from workers.vision import load_source_encoder

    _, dtype = prepare_torch("cpu")
    processor, vision = load_processor(tiny), load_source_encoder(tiny, dtype).eval()

    def encode(*urls, requests=(TEXT,), watch=None, patience=HURRIED, checkpoint=tiny):
        pool = EncoderPool(urls, patience)
        encoder = RemoteEncoder(pool, processor, checkpoint, vision)
        return encoder.encode(requests, watch or Watch())

    return encode


def test_the_payload_is_sglangs_with_our_sampling(stock, encoding):
    """One picture is the single form; sampling is stated in full, and no cache key is needed."""
    (prior,) = encoding(stock.url)
    (body,) = stock.bodies
    assert set(body) == {"input_ids", "image_data", "sampling_params", "stream", "rid"}
    assert body["image_data"] == [{"image_grid_thw": [[1, 2, 2], [1, 16, 16]]}]
    params = body["sampling_params"]
    assert params.pop("logit_bias") == {str(token): -1e9 for token in range(256, 272)}
    assert params == {
        "temperature": 0.9,
        "top_p": 0.75,
        "max_new_tokens": 261,
        "ignore_eos": True,
        "sampling_seed": 5,
    }
    assert prior.prior_token_ids.tolist() == [[1] * 16]


def test_an_edit_sends_codes_and_grids_and_no_placeholder(stock, encoding, tiny):
    """Sources arrive as codebook ids between their marks, grids first, with a key of their own."""
    encoding(stock.url, requests=[EDIT])
    (body,) = stock.bodies
    ids, grids = body["input_ids"], body["image_data"][0]["image_grid_thw"]
    assert grids == [[1, 2, 2], [1, 2, 3], [1, 2, 2]]
    assert body["extra_key"] == "1x2x2,1x2x3"
    assert tiny.image_token_id not in ids
    assert max(ids) < tiny.vocabulary_size
    starts = [at for at, token in enumerate(ids) if token == tiny.start_token_id]
    ends = [at for at, token in enumerate(ids) if token == tiny.end_token_id]
    spans = [ids[start + 1 : end] for start, end in zip(starts, ends, strict=False)]
    assert [len(span) for span in spans] == [4, 6]
    assert all(0 <= code < tiny.codebook_size for span in spans for code in span)


def test_several_pictures_are_one_call_in_list_form(stock, encoding):
    """Every field is a list, seeds count up, and each row has a name of its own."""
    priors = encoding(stock.url, requests=[replace(EDIT, seed=seed) for seed in (5, 6, 7)])
    (body,) = stock.bodies
    assert len(priors) == 3
    assert [params["sampling_seed"] for params in body["sampling_params"]] == [5, 6, 7]
    assert {len(set(body["rid"])), *map(len, (body["input_ids"], body["image_data"]))} == {3}
    assert body["extra_key"] == ["1x2x2,1x2x3"] * 3


def test_a_row_that_would_end_the_server_is_not_sent(stock, encoding, tiny):
    """An id outside codebook or vocabulary never leaves: SGLang's process would end with it."""
    for narrow in (replace(tiny, codebook_size=2), replace(tiny, vocabulary_size=300)):
        with pytest.raises(RuntimeError, match="must not be sent"):
            encoding(stock.url, requests=[EDIT], checkpoint=narrow)
    assert stock.bodies == []


def test_both_kinds_of_stream_are_read(stock, encoding):
    """All tokens so far, or the latest only: SGLang has an option for either."""
    for stock.is_incremental in (False, True):
        (prior,) = encoding(stock.url)
        assert prior.completion_tokens == 261


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"content": b"no json"}, EncoderFailed),
        ({"content": b"{}"}, EncoderFailed),
        ({"content": b"[]"}, EncoderFailed),
        ({"content": b'{"output_ids": [1, 2]}'}, EncoderFailed),
        ({"content": b'{"output_ids": ["a"]}'}, EncoderFailed),
        ({"content": b'{"error": {"message": "no"}}'}, EncoderFailed),
        ({"content": b"", "status": 400}, EncoderFailed),
        ({"content": b"", "status": 500}, EncoderFailed),
        ({"gives": 200}, EncoderFailed),
        ({"token": 256}, EncoderFailed),
        ({"token": -1}, EncoderFailed),
        ({"token": 10**9}, EncoderFailed),
        ({"content": b"", "status": 503}, EncoderUnreachable),
        ({"content": b"", "status": 429}, EncoderUnreachable),
        ({"status": 503, "headers": {"x-turnout-started": "true"}}, EncoderLost),
        ({"dies_after": 0}, EncoderLost),
        ({"dies_after": 3}, EncoderLost),
    ],
    ids=str,
)
def test_bad_answers_are_clear_errors(stock, encoding, settings, error):
    """What cannot be used is 502, what proves that nothing began 503, what broke off lost work."""
    vars(stock).update(settings)
    with pytest.raises(error) as raised:
        encoding(stock.url)
    expected = {EncoderFailed: (502, True), EncoderUnreachable: (503, False)}
    status, has_begun = expected.get(error, (503, True))
    assert (raised.value.status, raised.value.has_begun) == (status, has_begun)


def test_a_server_that_dies_before_its_first_byte_is_lost_work(encoding, dying_server):
    """It has read the request: nobody knows whether it began."""
    with pytest.raises(EncoderLost):
        encoding(dying_server)


def test_silence_with_a_bad_health_is_lost_work(stock, encoding):
    """A server that neither sends tokens nor answers /health is given up long before `read`."""
    stock.stops_after, stock.is_healthy = 2, False
    began = time.monotonic()
    with pytest.raises(EncoderLost):
        encoding(stock.url, patience=replace(HURRIED, read=60))
    assert time.monotonic() - began < 5


def test_silence_is_not_waited_for_without_end(stock, encoding):
    """A healthy server that sends no token for `read` seconds is given up as well."""
    stock.stops_after = 2
    began = time.monotonic()
    with pytest.raises(EncoderLost):
        encoding(stock.url, patience=replace(HURRIED, read=0.5))
    assert time.monotonic() - began < 5


def test_tokens_prove_that_a_server_lives(stock, encoding):
    """As long as tokens come, a health check that fails does no harm."""
    stock.is_healthy, stock.seconds_per_token = False, 0.002
    assert len(encoding(stock.url)) == 1


def test_only_a_refused_connection_moves_on(stock, encoding, free_port):
    """The next server is asked if there was no connection, and not if this one was busy."""
    dead = f"http://127.0.0.1:{free_port}"
    assert len(encoding(dead, stock.url)) == 1
    with pytest.raises(EncoderUnreachable):
        encoding(dead)
    busy = StockEncoder()
    busy.status, stock.load = 503, 5
    with running(busy.app) as client, pytest.raises(EncoderUnreachable):
        encoding(str(client.base_url).rstrip("/"), stock.url)
    assert (len(busy.bodies), len(stock.bodies)) == (1, 1)


def test_the_least_loaded_server_is_asked(stock, encoding):
    """Of two servers the one with fewer requests gets the call, and equals take turns."""
    other = StockEncoder()
    with running(other.app) as client:
        urls = (stock.url, str(client.base_url).rstrip("/"))
        stock.load = 2
        encoding(*urls)
        assert (len(stock.bodies), len(other.bodies)) == (0, 1)
        other.load = 3
        encoding(*urls)
        assert (len(stock.bodies), len(other.bodies)) == (1, 1)


def test_equally_loaded_servers_take_turns(stock, tiny):
    """Without a difference every server gets its share."""
    from workers.rows import Row

    other = StockEncoder()
    with running(other.app) as client:
        pool = EncoderPool((stock.url, str(client.base_url).rstrip("/")), HURRIED)
        for _ in range(4):
            pool.decode([Row([1], [[1, 1, 2]], 3)], 0, Watch())
    assert (len(stock.bodies), len(other.bodies)) == (2, 2)
