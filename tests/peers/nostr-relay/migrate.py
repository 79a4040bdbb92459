"""Creates the relay's database tables: migrate.py CONFIG."""

import os
import sys

import nostr_relay
from alembic import config as alembic
from nostr_relay.config import Config

Config.load(sys.argv[1])
folder = os.path.dirname(nostr_relay.__file__)
alembic.main(["-c", os.path.join(folder, "alembic.ini"), "upgrade", "head"])
