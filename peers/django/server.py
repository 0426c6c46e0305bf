"""PyPI's django-oauth-toolkit on gunicorn: `server.py setup` or `server.py serve`.

`setup` creates the tables and SESSIONS sessions in DATABASE_URL, prints one line of JSON that describes them, and exits.
`serve` listens on 127.0.0.1:PORT, prints one line when it is ready, and ends when its standard input does.

A refresh is 18 statements with one commit: it reads the client (twice), the refresh token, its access token and the
user; a transaction locks the tokens, deletes the access token, revokes the refresh token and inserts a new pair.
Introspection reads the client, and the access token with its client and user. What is cheap for the product is chosen:
opaque tokens, no other middleware than the one that sets Content-Length, and connections that stay open.
"""

import json
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import uuid
from datetime import timedelta
from importlib.metadata import version
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path

# Two processes for two cores, because a process runs Python on one core at a time. A thread has one connection to
# PostgreSQL and waits for it, meanwhile another thread works. Unlike the default workers of gunicorn, those with
# threads keep HTTP connections open.
WORKERS = 2
THREADS = 4

CLIENT_ID = "bench"
# The product hashes secrets with PBKDF2 unless told not to, and every request with a secret would wait for that.
CLIENT_SECRET = "a-secret-for-measurements-on-loopback-only"
SCOPE = "read"
ACCESS_TOKEN_SECONDS = 86_400


def configure():
    url = urlsplit(os.environ["DATABASE_URL"])
    settings.configure(
        DEBUG=False,
        SECRET_KEY=secrets.token_urlsafe(32),
        ALLOWED_HOSTS=["*"],
        USE_TZ=True,
        ROOT_URLCONF=__name__,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": url.hostname,
                "PORT": url.port,
                "USER": url.username,
                "PASSWORD": url.password or "",
                "NAME": url.path.lstrip("/"),
                "CONN_MAX_AGE": None,
            }
        },
        # A warning for each request would be measured, too.
        LOGGING={"version": 1, "root": {"handlers": []}},
        OAUTH2_PROVIDER={
            "SCOPES": {SCOPE: "Read", "introspection": "Introspect tokens"},
            "ACCESS_TOKEN_EXPIRE_SECONDS": ACCESS_TOKEN_SECONDS,
            "ROTATE_REFRESH_TOKEN": True,
            "REFRESH_TOKEN_REUSE_PROTECTION": True,
            "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
        },
    )
    django.setup()


configure()

# These need the settings.
from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402
from gunicorn.app.base import BaseApplication  # noqa: E402
from oauth2_provider import views  # noqa: E402
from oauth2_provider.models import (  # noqa: E402
    get_access_token_model,
    get_application_model,
    get_refresh_token_model,
    set_token_value,
)

urlpatterns = [
    path("o/token/", views.TokenView.as_view()),
    path("o/introspect/", views.IntrospectTokenView.as_view()),
]


def make_session(application, number):
    """Creates a user and a pair of tokens through the product's own models."""
    user = get_user_model().objects.create(username=f"user{number}")
    pair = {"access_token": secrets.token_urlsafe(32), "refresh_token": secrets.token_urlsafe(32)}
    expires = timezone.now() + timedelta(seconds=ACCESS_TOKEN_SECONDS)
    access = get_access_token_model()(user=user, application=application, expires=expires, scope=SCOPE)
    set_token_value(access, pair["access_token"])
    access.save()
    refresh = get_refresh_token_model()(
        user=user, application=application, access_token=access, token_family=uuid.uuid4()
    )
    set_token_value(refresh, pair["refresh_token"])
    refresh.save()
    return pair


def setup(count):
    call_command("migrate", verbosity=0)
    model = get_application_model()
    application = model.objects.create(
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        hash_client_secret=False,
        client_type=model.CLIENT_CONFIDENTIAL,
        authorization_grant_type=model.GRANT_AUTHORIZATION_CODE,
        redirect_uris="https://client.test/callback",
    )
    credentials = f"client_id={CLIENT_ID}&client_secret={CLIENT_SECRET}"
    return {
        "product": "django-oauth-toolkit",
        "version": version("django-oauth-toolkit"),
        "refresh": {"path": "/o/token/", "body": f"grant_type=refresh_token&{credentials}&refresh_token="},
        "introspect": {"path": "/o/introspect/", "body": f"{credentials}&token="},
        "sessions": [make_session(application, number) for number in range(count)],
    }


def say(message):
    print(json.dumps(message), flush=True)


started_workers = multiprocessing.Value("i", 0)


def announce(worker):
    """Prints the line that says that all workers listen. Runs in each of them."""
    with started_workers.get_lock():
        started_workers.value += 1
        if started_workers.value == WORKERS:
            say({"ready": True})


class Server(BaseApplication):
    def load_config(self):
        options = {
            "bind": f"127.0.0.1:{os.environ['PORT']}",
            "workers": WORKERS,
            "worker_class": "gthread",
            "threads": THREADS,
            # A listener for each worker. Of one listener the first worker takes nearly all connections.
            "reuse_port": True,
            "keepalive": 60,
            "loglevel": "error",
            # It would be a file in the home folder of the account.
            "control_socket_disable": True,
            "post_worker_init": announce,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self):
        return get_wsgi_application()


def end_with_input():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == "setup":
        say(setup(int(os.environ.get("SESSIONS", "64"))))
    else:
        threading.Thread(target=end_with_input, daemon=True).start()
        Server().run()
