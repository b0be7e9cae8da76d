"""One HTTP request and the meaning of its response: data, an error worth a retry, a changed file, or a failure.

Uses urllib of the standard library, see docs/decisions/0007-fetch-is-ours.md.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import IO, cast

import trainmark
from trainmark.datasets.fetch.request import Address, hide_secrets
from trainmark.errors import DataError

_TRANSIENT_CODES = {408, 425, 429, 500, 502, 503, 504}
_MAX_REDIRECTS = 5
_MAX_RETRY_AFTER_S = 60.0
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_NUMBER = re.compile(r"[0-9]{1,18}")
_HINTS = {
    401: "put user and password into the URL: https://user:password@host/...",
    403: "you may have to accept a licence or to request a new link",
    404: "check the spelling, or look for a newer link",
    407: "set https_proxy to http://user:password@host:port",
    410: "look for a newer link",
}


class TransientError(Exception):
    """Worth a retry."""

    def __init__(self, why: str, *, retry_after_s: float | None = None, is_refused: bool = False) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.is_refused = is_refused


class ChangedError(Exception):
    """The file on the server is not the one that the download started with."""


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What a server states about a file; None if it does not."""

    num_bytes: int | None
    etag: str | None
    last_modified: str | None
    has_ranges: bool

    @property
    def has_version(self) -> bool:
        return self.etag is not None or self.last_modified is not None

    def is_same(self, other: Resource) -> bool:
        if self.etag is not None and other.etag is not None:
            return (self.etag, self.num_bytes) == (other.etag, other.num_bytes)
        return (self.etag, self.last_modified, self.num_bytes) == (other.etag, other.last_modified, other.num_bytes)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _MAX_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not newurl.lower().startswith("https://") and (
            req.type == "https" or not newurl.lower().startswith("http://")
        ):
            raise DataError(
                f"cannot fetch {hide_secrets(req.full_url)}",
                why=f"it redirects to {hide_secrets(newurl)}, which is refused: not https, or not http at all",
                hint="look for a newer link",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Server:
    """Sends requests. Has no state except the opener, so all threads share one."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._opener = urllib.request.OpenerDirector()
        for handler in (  # not build_opener, which also opens file:, ftp: and data:
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=ssl.create_default_context()),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.UnknownHandler(),
            _Redirects(),
        ):
            self._opener.add_handler(handler)

    def probe(self, address: Address) -> Resource:
        """Requests one byte with GET, because many signed links do not allow HEAD."""
        try:
            response = self.ask(address, start=0, end=1)
        except _EmptyError as empty:
            return empty.resource
        with response:
            return _describe(response)

    def ask(self, address: Address, *, start: int | None = None, end: int | None = None) -> http.client.HTTPResponse:
        """Requests the bytes from `start` up to but not including `end`, or all."""
        request = urllib.request.Request(address.url)  # noqa: S310  the opener supports http and https only
        request.add_header("User-Agent", f"trainmark/{trainmark.__version__}")
        request.add_header("Accept-Encoding", "identity")
        if address.authorization is not None:
            # Not sent to the target of a redirect.
            request.add_unredirected_header("Authorization", address.authorization)
        if start is not None and end is not None:
            request.add_header("Range", f"bytes={start}-{end - 1}")
        try:
            return cast("http.client.HTTPResponse", self._opener.open(request, timeout=self._timeout_s))
        except urllib.error.HTTPError as error:
            with error:
                raise _judge_status(address, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise judge_failure(address, error) from None

    def ask_whole(self, address: Address, expected: Resource) -> http.client.HTTPResponse:
        """Requests the whole file. Raises ChangedError if it is not the one that the download started with."""
        response = self.ask(address)
        if not expected.is_same(_describe(response)):
            response.close()
            raise ChangedError
        return response

    def ask_range(self, address: Address, expected: Resource, *, start: int, end: int) -> http.client.HTTPResponse:
        """Requests a range. Raises ChangedError if the file is not the one that the download started with."""
        try:
            response = self.ask(address, start=start, end=end)
        except _EmptyError as empty:
            raise ChangedError from empty
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        is_right = response.status == 206 and found is not None and found[1] == str(start)
        if not is_right or not expected.is_same(_describe(response)):
            response.close()
            raise ChangedError
        return response


class _EmptyError(Exception):
    """416: the file has no such bytes."""

    def __init__(self, resource: Resource) -> None:
        super().__init__("no such range")
        self.resource = resource


def _describe(response: http.client.HTTPResponse | urllib.error.HTTPError) -> Resource:
    headers = response.headers
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    is_part = response.status == 206 and found is not None
    size = found[3] if found is not None else headers.get("Content-Length", "")
    return Resource(
        num_bytes=int(size) if _NUMBER.fullmatch(size) else None,
        etag=headers.get("ETag"),
        last_modified=headers.get("Last-Modified"),
        has_ranges=is_part and _NUMBER.fullmatch(size) is not None,
    )


def _judge_status(address: Address, error: urllib.error.HTTPError) -> Exception:
    if error.code in _TRANSIENT_CODES:
        wait = error.headers.get("Retry-After", "")
        retry_after_s = min(float(wait), _MAX_RETRY_AFTER_S) if _NUMBER.fullmatch(wait) else None
        return TransientError(f"server response: {error.code} {error.reason}", retry_after_s=retry_after_s)
    if error.code == 416:
        return _EmptyError(_describe(error))
    if 300 <= error.code < 400:
        why = f"more than {_MAX_REDIRECTS} redirects, or an unsupported one"
        return DataError(f"cannot fetch {address.shown}", why=why, hint="give the final URL")
    hint = _HINTS.get(error.code, "open the URL in a browser to see the response")
    why = f"server response: {error.code} {hide_secrets(str(error.reason))}"
    return DataError(f"cannot fetch {address.shown}", why=why, hint=hint)


def judge_failure(address: Address, error: Exception) -> Exception:
    """Classifies a connection error. Most are temporary; an unknown host and an invalid certificate are not."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    what = f"cannot fetch {address.shown}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        hint = "set SSL_CERT_FILE if your site has its own certificate authority; the check cannot be turned off"
        return DataError(what, why=f"its certificate is not trusted: {reason.verify_message}", hint=hint)
    if isinstance(reason, socket.gaierror) and reason.errno != socket.EAI_AGAIN:
        why = f"host not found: {reason.strerror}"
        return DataError(what, why=why, hint="check the spelling, and https_proxy if your site needs one")
    if isinstance(reason, http.client.InvalidURL):
        return DataError(what, why=hide_secrets(str(reason)), hint="check the spelling")
    why = hide_secrets(str(reason)) or type(reason).__name__
    return TransientError(why, is_refused=isinstance(reason, ConnectionRefusedError))
