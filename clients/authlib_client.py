"""Signs in with the stock library Authlib.

Prints the address that a person has to open, and reads where the browser was sent afterwards.
"""
import os
import sys

import requests
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session

issuer = os.environ["ISSUER"]
metadata = requests.get(f"{issuer}/.well-known/oauth-authorization-server", timeout=10).json()
session = OAuth2Session(
    os.environ["CLIENT_ID"],
    redirect_uri=os.environ["REDIRECT_URI"],
    scope="read",
    token_endpoint_auth_method="none",
    code_challenge_method="S256",
)
verifier = generate_token(48)
address, state = session.create_authorization_url(metadata["authorization_endpoint"], code_verifier=verifier)
print(address, flush=True)
answered = sys.stdin.readline().strip()
session.fetch_token(
    metadata["token_endpoint"], authorization_response=answered, code_verifier=verifier, state=state
)
session.refresh_token(metadata["token_endpoint"])
who = session.get(f"{issuer}/v1/whoami")
print("signed in and refreshed" if who.status_code == 200 else f"whoami answers {who.status_code}")
sys.exit(0 if who.status_code == 200 else 1)
