"""The certificates of the rehearsal forge: an authority of its own, and one for every name it answers to."""

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.exceptions import InvalidSignature

NAMES = ("localhost", "127.0.0.1", "github.com", "api.github.com", "uploads.github.com")
LASTS = timedelta(days=365)
# A certificate that ends within this time is made anew, so that a server does not outlive its own.
SPARE = timedelta(days=7)


@dataclass(frozen=True)
class Certificates:
    """Files: what clients trust, and what the server shows."""

    ca: Path
    chain: Path
    key: Path


def certificates(directory: Path) -> Certificates:
    """The certificates in that directory, made if they are missing or about to end; only their owner can read them."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = Certificates(directory / "ca.pem", directory / "server.pem", directory / "server.key")
    if _valid(files):
        return files
    authority = trustme.CA(organization_name="Resolvent rehearsal forge")
    # The authority's own key is not kept: nobody can make a certificate for another name with it, not even we.
    served = authority.issue_cert(*NAMES, not_after=datetime.now(UTC) + LASTS)
    chain = b"".join(blob.bytes() for blob in served.cert_chain_pems)
    for path, text in ((files.key, served.private_key_pem.bytes()), (files.chain, chain)):
        private_file(path, text)
    private_file(files.ca, authority.cert_pem.bytes())
    return files


def private_file(path: Path, text: bytes) -> None:
    """Put the text at that path, whole or not at all, for its owner's eyes only."""
    scratch = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        scratch.rename(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _valid(files: Certificates) -> bool:
    try:
        shown = x509.load_pem_x509_certificate(files.chain.read_bytes())
        trusted = x509.load_pem_x509_certificate(files.ca.read_bytes())
        shown.verify_directly_issued_by(trusted)
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    known = {str(name.value) for name in names}
    ends = min(shown.not_valid_after_utc, trusted.not_valid_after_utc)
    return files.key.is_file() and known.issuperset(NAMES) and ends - datetime.now(UTC) > SPARE
