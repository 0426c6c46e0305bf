"""Lists the projects that a CLI token gives access to. With a name as argument, creates a project first."""

import sys

from service_sdk import NotSignedIn, Service, ServiceError, ValidationFailed, pages
from service_sdk.generated.api.content import create_project, list_projects
from service_sdk.generated.models import NewProject


def main() -> int:
    try:
        # Reads SERVICE_API_URL and SERVICE_TOKEN. A token does not belong into the arguments: other users can see them.
        with Service.from_environment() as service:
            for name in sys.argv[1:2]:
                created = create_project.sync(client=service.api, body=NewProject(name=name))
                print(f"created {created.id}")
            for project in pages(lambda cursor: list_projects.sync(client=service.api, cursor=cursor, limit=100)):
                print(f"{project.id}  {project.name}")
    except NotSignedIn as error:
        print(error, file=sys.stderr)
        return 2
    except ValidationFailed as error:
        print(f"not valid: {error.fields}", file=sys.stderr)
        return 1
    except ServiceError as error:
        print(f"{error.error_description} (request {error.request_id})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
