# Two images from one file: `gateway` (no torch) and `worker`.
#
#   docker build --target gateway --tag turnout-gateway .
#   docker build --target worker --tag turnout-worker .
#
# Both need BuildKit or buildah. Where packages come from another index, or where the CPU build of
# torch is wanted, say so: --build-arg PIP_EXTRA_INDEX_URL=… (pip's own variables, see below).

FROM python:3.11-slim-bookworm AS base
# HOME: libraries want a place for caches, and /tmp is the one that is writable at run time.
ENV PATH=/opt/turnout/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1
# A fixed number, so that volumes, policies and `runAsNonRoot` can rely on it.
RUN groupadd --gid 10001 turnout \
 && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin turnout


# The names of the dependencies alone: a change elsewhere in pyproject.toml leaves these two files
# as they were, and so leaves the layers below in the cache.
FROM base AS requirements
WORKDIR /requirements
COPY pyproject.toml constraints.txt ./
RUN python -c 'from tomllib import load; print(*load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' > gateway.txt \
 && python -c 'from tomllib import load; print(*load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["worker"], sep="\n")' > worker.txt


FROM base AS gateway-env
# Unset unless given; pip reads them from the environment. They stay out of the images.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
COPY --from=requirements /requirements/constraints.txt /requirements/gateway.txt /requirements/
RUN --mount=type=cache,target=/tmp/.cache/pip \
    python -m venv --without-pip /opt/turnout \
 && pip --python /opt/turnout/bin/python install \
      --constraint /requirements/constraints.txt --requirement /requirements/gateway.txt


FROM gateway-env AS worker-env
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
COPY --from=requirements /requirements/worker.txt /requirements/
RUN --mount=type=cache,target=/tmp/.cache/pip \
    pip --python /opt/turnout/bin/python install \
      --constraint /requirements/constraints.txt --requirement /requirements/worker.txt


# The distribution itself, as a wheel; hatchling stays behind in this stage.
FROM base AS wheel
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
WORKDIR /build
COPY --from=requirements /requirements/constraints.txt ./
RUN --mount=type=cache,target=/tmp/.cache/pip \
    python -m venv --without-pip /opt/build \
 && pip --python /opt/build/bin/python install --constraint constraints.txt hatchling
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY workers workers
RUN pip --python /opt/build/bin/python wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .


FROM base AS gateway
COPY --from=gateway-env /opt/turnout /opt/turnout
# Every dependency is there already; `pip check` proves it.
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip --python /opt/turnout/bin/python install --no-cache-dir --no-index --no-deps /wheels/*.whl \
 && pip --python /opt/turnout/bin/python check
ENV TURNOUT__SERVER__HOST=0.0.0.0
USER 10001:10001
# 8000 for clients; 8001 for operators, on loopback unless the configuration says otherwise.
EXPOSE 8000 8001
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, timeout=4); c.request('GET', '/livez'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["turnout"]
CMD ["serve", "--config", "/etc/turnout/turnout.toml"]


FROM base AS worker
COPY --from=worker-env /opt/turnout /opt/turnout
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip --python /opt/turnout/bin/python install --no-cache-dir --no-index --no-deps /wheels/*.whl \
 && pip --python /opt/turnout/bin/python check \
 && install --directory --owner=10001 --group=10001 /models
# Checkpoints: one directory each, with `glm-image` in its name. OMP_NUM_THREADS is left to whoever
# knows how many cores this container gets; unset, a worker takes half of those it sees.
VOLUME /models
USER 10001:10001
# The encoder, a text-to-image worker, an image-to-image worker. Each has its own health check in
# deploy/compose.yaml, since one image cannot know which of them it will be.
EXPOSE 30001 30010 30020
ENTRYPOINT ["turnout-worker"]
CMD ["--help"]
