"""Signs in, creates, handles a 422 and pages through a list. The test that starts it opens the address that it prints."""

import asyncio
import logging
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor

from service_sdk import NotFound, Secret, Service, ValidationFailed, pages, sign_in, sign_out
from service_sdk.generated.api.content import create_project, list_projects, read_project
from service_sdk.generated.api.whoami import whoami
from service_sdk.generated.models import NewProject

URL, FILE = os.environ["SERVICE_API_URL"], os.environ["SESSION_FILE"]
ITEMS = 250

# Whatever libraries log, no secret is among it.
logging.basicConfig(level=logging.DEBUG)

sign_in(URL, os.environ["CLIENT_ID"], FILE, scope="read write", open_url=lambda url: print(f"open {url}", flush=True))
assert stat.S_IMODE(os.stat(FILE).st_mode) == 0o600

with Service.from_session(URL, FILE) as service:
    print(f"email {whoami.sync(client=service.api).user.email}")

    def create(name):
        return create_project.sync(client=service.api, body=NewProject(name=name))

    with ThreadPoolExecutor(20) as threads:
        created = list(threads.map(lambda number: create(f"Project {number}"), range(ITEMS)))
    assert len({project.id for project in created}) == ITEMS
    listed = pages(lambda cursor: list_projects.sync(client=service.api, cursor=cursor, limit=100))
    assert {project.name for project in listed} == {f"Project {number}" for number in range(ITEMS)}

    try:
        create("")
        raise SystemExit("an empty name was accepted")
    except ValidationFailed as error:
        assert error.status == 422 and error.error == "validation_failed"
        assert error.error_description and error.request_id and error.fields
    try:
        read_project.sync("proj_01m955vw00fjqrz47smcqrkmzz", client=service.api)
        raise SystemExit("a project was made up")
    except NotFound as error:
        assert error.request_id

    shown = repr(service) + repr(service.api)
    assert "svc_" not in shown and "eyJ" not in shown, "a token is shown"

    async def asynchronously():
        return await whoami.asyncio(client=service.api)

    assert asyncio.run(asynchronously()).user.email

secret = Secret("svc_cli_hidden")
for shown in (str(secret), repr(secret), f"{secret}", "%r" % [secret]):
    assert "svc_" not in shown
try:
    pickle.dumps(secret)
    raise SystemExit("a secret was pickled")
except TypeError:
    pass
try:
    Service.from_session("http://service.example", FILE)
    raise SystemExit("plain text was accepted")
except ValueError:
    pass

if os.environ.get("SIGN_OUT"):
    sign_out(URL, FILE)
    assert not os.path.exists(FILE)
print("done")
