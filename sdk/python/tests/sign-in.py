"""Signs in. The test that starts it opens the address that it prints."""

import os

from service_sdk import sign_in

sign_in(
    os.environ["SERVICE_API_URL"],
    os.environ["CLIENT_ID"],
    os.environ["SESSION_FILE"],
    open_url=lambda url: print(f"open {url}", flush=True),
)
