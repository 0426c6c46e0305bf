// A service, with the credential that its calls are made with.
import createClient from 'openapi-fetch'
import type { Client } from 'openapi-fetch'
import { CliToken, Session } from './credentials.js'
import type { Credentials } from './credentials.js'
import { NotSignedIn, errorOf } from './errors.js'
import type { paths } from './generated.js'
import { REPEATABLE_METHODS, repeat, send, serviceUrl } from './http.js'
import { Secret } from './secret.js'
import { SessionFile } from './session-file.js'

/** A service. `api` has its operations; an error response throws a `ServiceError`. */
export class Service {
  readonly url: string
  /** Typed calls, such as `api.GET('/v1/whoami')`. */
  readonly api: Client<paths>
  readonly #credentials: Credentials

  constructor(url: string, credentials: Credentials) {
    this.url = serviceUrl(url)
    this.#credentials = credentials
    this.api = createClient<paths>({ baseUrl: this.url, fetch: request => this.#fetch(request) })
  }

  /** With the CLI token in `SERVICE_TOKEN`, for the service at `SERVICE_API_URL`. */
  static fromEnvironment(): Service {
    const { SERVICE_API_URL: url, SERVICE_TOKEN: token } = process.env
    if (!url || !token) throw new NotSignedIn('set SERVICE_API_URL, and SERVICE_TOKEN to a CLI token')
    return new Service(url, new CliToken(new Secret(token)))
  }

  /** With the session that `signIn` stored in `file`. */
  static fromSession(url: string, file: string): Service {
    return new Service(url, new Session(serviceUrl(url), new SessionFile(file)))
  }

  /**
   * Adds the access token. If the service rejects it, refreshes it and sends the request once more, which is safe: a request
   * that is rejected for its token has no effect.
   */
  async #fetch(request: Request): Promise<Response> {
    const token = await this.#credentials.token()
    const response = await sendWith(request, token)
    if (response.ok) return response
    const error = await errorOf(response)
    // A token for another resource stays one.
    if (error.error !== 'invalid_token' || error.reason === 'wrong_audience') throw error
    const renewed = await this.#credentials.renew(token)
    if (!renewed) throw error
    const again = await sendWith(request, renewed)
    if (again.ok) return again
    throw await errorOf(again)
  }
}

async function sendWith(original: Request, token: Secret): Promise<Response> {
  const attempt = () => {
    const request = original.clone()
    request.headers.set('authorization', `Bearer ${token.expose()}`)
    return send(request)
  }
  // A caller that has aborted the request waits for no other attempt.
  const isRepeatable = REPEATABLE_METHODS.includes(original.method) && !original.signal.aborted
  return isRepeatable ? await repeat(attempt) : await attempt()
}

/** The data of a successful call: `const who = await data(service.api.GET('/v1/whoami'))`. */
export async function data<T>(call: Promise<{ data?: T }>): Promise<NonNullable<T>> {
  const { data } = await call
  if (data === undefined || data === null) throw new TypeError('the response has no content')
  return data
}

/**
 * Every item of a list, page after page. `read` makes the call with the cursor that it is given:
 * `pages(cursor => data(service.api.GET('/v1/projects', { params: { query: { ...cursor, limit: 100 } } })))`
 */
export async function* pages<T>(
  read: (cursor: { cursor?: string }) => Promise<{ data: T[]; nextCursor?: string }>,
): AsyncGenerator<T, void, undefined> {
  let cursor: { cursor?: string } = {}
  for (;;) {
    const page = await read(cursor)
    yield* page.data
    if (page.nextCursor === undefined) return
    cursor = { cursor: page.nextCursor }
  }
}
