"""Prints who is signed in, by the session in SESSION_FILE or else by SERVICE_TOKEN. With WAIT, first waits for the end of its
input, so that many processes begin at the same moment."""

import os
import sys

from service_sdk import Service
from service_sdk.generated.api.whoami import whoami

file = os.environ.get("SESSION_FILE")
try:
    with Service.from_session(os.environ["SERVICE_API_URL"], file) if file else Service.from_environment() as service:
        if os.environ.get("WAIT"):
            print("ready", flush=True)
            sys.stdin.read()
        print(f"email {whoami.sync(client=service.api).user.email}")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
