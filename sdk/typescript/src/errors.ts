// Errors of the service, and of the session.

interface ErrorBody {
  error: string
  error_description?: string
  details?: Record<string, unknown>
  request_id?: string
}

/** An error response of the service. `error` says what happened, `details` has more for programs. */
export class ServiceError extends Error {
  readonly status: number
  readonly error: string
  readonly error_description: string
  readonly details: Record<string, unknown>
  readonly requestId: string | undefined
  /** Seconds to wait before a retry. */
  readonly retryAfter: number | undefined

  constructor(response: Response, body: ErrorBody) {
    const requestId = body.request_id ?? response.headers.get('x-request-id') ?? undefined
    const description = body.error_description ?? ''
    super(`${description} (${body.error}, status ${response.status}, request ${requestId})`)
    this.name = new.target.name
    this.status = response.status
    this.error = body.error
    this.error_description = description
    this.details = body.details ?? {}
    this.requestId = requestId
    const retryAfter = response.headers.get('retry-after') ?? ''
    this.retryAfter = /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined
  }

  /** Why a genuine credential is no longer valid, such as `expired` or `revoked_by_user`. */
  get reason(): string | undefined {
    return typeof this.details['reason'] === 'string' ? this.details['reason'] : undefined
  }
}

/** 401: the token is missing, expired or revoked, or it is for another resource. */
export class InvalidCredential extends ServiceError {}

/** 403: the token's scopes or space, or the user's role, do not allow the call. */
export class Forbidden extends ServiceError {}

/** 404: there is no such thing, or the caller may not see it. */
export class NotFound extends ServiceError {}

/** 409 or 412: the thing has changed, or exists already. */
export class Conflict extends ServiceError {}

/** 422: a field is not valid. */
export class ValidationFailed extends ServiceError {
  /** What is wrong with which field, as the service reports it. */
  get fields(): unknown {
    return this.details['fields']
  }
}

/** 429: too many requests. `retryAfter` has the seconds to wait. */
export class RateLimited extends ServiceError {}

/** 502, 503 or 504: the service is temporarily unavailable. `retryAfter` has the seconds to wait. */
export class Unavailable extends ServiceError {}

const BY_STATUS: Record<number, typeof ServiceError> = {
  401: InvalidCredential,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  412: Conflict,
  422: ValidationFailed,
  429: RateLimited,
  502: Unavailable,
  503: Unavailable,
  504: Unavailable,
}

/** The error for a response. Reads its body. */
export async function errorOf(response: Response): Promise<ServiceError> {
  const body: unknown = await response.json().catch(() => undefined)
  const Kind = BY_STATUS[response.status] ?? ServiceError
  if (isErrorBody(body)) return new Kind(response, body)
  // A proxy answered, or the URL is wrong. Its text is not ours to repeat.
  return new Kind(response, {
    error: 'unexpected_response',
    error_description: 'The response is not one of the service.',
  })
}

function isErrorBody(body: unknown): body is ErrorBody {
  return typeof body === 'object' && body !== null && 'error' in body && typeof body.error === 'string'
}

/** There is no credential: neither `SERVICE_TOKEN` nor a session. */
export class NotSignedIn extends Error {
  override readonly name: string = 'NotSignedIn'
}

/** The session was revoked or has expired. Its file has been deleted. */
export class SessionEnded extends NotSignedIn {
  override readonly name = 'SessionEnded'
  readonly reason: string | undefined

  constructor(reason: string | undefined) {
    super(`the session has ended (${reason ?? 'no reason given'}); sign in again`)
    this.reason = reason
  }
}

/** The user has to sign in through their company again. The session was kept: it works again afterwards. */
export class SignInRequired extends Error {
  override readonly name = 'SignInRequired'
}

/** The browser came back without a code, or not from this sign-in. */
export class SignInFailed extends Error {
  override readonly name = 'SignInFailed'
}

/** Another process has been refreshing the session for 30 seconds. */
export class SessionBusy extends Error {
  override readonly name = 'SessionBusy'
}

/** The file of the session cannot be used. The message never contains a token. */
export class SessionFileError extends Error {
  override readonly name = 'SessionFileError'
}
