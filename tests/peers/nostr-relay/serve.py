"""Runs the relay on a database that exists already: serve.py CONFIG [PUBKEY ...].

Each PUBKEY (hex) is given the reader and writer roles that mode `auth` asks for.
"""

import sqlite3
import sys
import time
import warnings

warnings.simplefilter("ignore")

from nostr_relay.config import Config  # noqa: E402
from nostr_relay.web import run_with_uvicorn  # noqa: E402

Config.load(sys.argv[1])
path = Config.storage["sqlalchemy.url"].split("///", 1)[1]
with sqlite3.connect(path) as database:
    database.executemany(
        "INSERT OR REPLACE INTO auth (pubkey, roles, created) VALUES (?, 'arw', ?)",
        [(pubkey, time.strftime("%Y-%m-%d %H:%M:%S.000000")) for pubkey in sys.argv[2:]],
    )
database.close()
run_with_uvicorn()
