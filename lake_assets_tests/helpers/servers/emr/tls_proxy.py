"""A proxy with TLS before a Spark Connect server, as EMR, a load balancer or an ingress has one: the server itself
speaks no TLS.

It passes each call on as bytes, if it accepts the call's headers. The certificate is of its own; a client takes it by
gRPC's variable for root certificates.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""The variable; gRPC reads it once in a process."""
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_OF_GRPC = ("user-agent", "grpc-")


@contextmanager
def tls_proxy(
    behind: str,
    certificate: Path,
    accepts: Callable[[Mapping[str, str]], bool],
    token: str | None = None,
    refusal: grpc.StatusCode = grpc.StatusCode.UNAUTHENTICATED,
) -> Iterator[int]:
    """The port of a proxy before the server at `behind` (`host:port`), inside of the block. Writes its certificate to
    the file. `token`: what the server gets instead of the caller's headers. `refusal`: the answer to other callers."""
    key, chain = _certificate()
    certificate.write_bytes(chain)
    with grpc.insecure_channel(behind, _UNLIMITED) as channel:
        server = grpc.server(ThreadPoolExecutor(16), options=_UNLIMITED)
        server.add_generic_rpc_handlers([_Passing(channel, accepts, token, refusal)])
        port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, chain)]))
        server.start()
        yield int(port)
        server.stop(1).wait()


class _Passing(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(
        self,
        channel: grpc.Channel,
        accepts: Callable[[Mapping[str, str]], bool],
        token: str | None,
        refusal: grpc.StatusCode,
    ) -> None:
        self._channel, self._accepts, self._token, self._refusal = channel, accepts, token, refusal

    def service(self, call: Any) -> Any:
        method = call.method

        def passed(requests: Any, context: Any) -> Any:
            given = dict(context.invocation_metadata())
            if not self._accepts(given):
                context.abort(self._refusal, "the proxy does not know this token")
            headers = [pair for pair in given.items() if not pair[0].startswith(_OF_GRPC)]
            if self._token is not None:
                headers = [("authorization", f"Bearer {self._token}")]
            try:
                yield from self._channel.stream_stream(method)(requests, metadata=headers)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), error.details())

        return grpc.stream_stream_rpc_method_handler(passed)


def _certificate() -> tuple[bytes, bytes]:
    """A key, and the certificate for `localhost` that it has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return private, built.public_bytes(serialization.Encoding.PEM)
