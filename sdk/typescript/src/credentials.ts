// Where the access token of a request comes from: a CLI token, or a session that is refreshed when it expires.
//
// One process refreshes at a time: it takes the lock, reads the file again, and uses the token of another process if there
// is a new one. Otherwise it sends the refresh token that it has just read, and stores the answer before it releases the
// lock. A refresh token that the service rejected is never sent again.
import { NotSignedIn, SessionEnded, SignInRequired, errorOf } from './errors.js'
import { postForm } from './http.js'
import { Secret } from './secret.js'
import type { SessionFile, Tokens } from './session-file.js'

/** An access token is refreshed this long before it expires, so that it does not expire on the way. */
const EXPIRY_MARGIN_MS = 60_000
const MAX_LIFETIME_SECONDS = 86_400

/** Gives the token for a request, and another one if the service rejected it. */
export interface Credentials {
  token(): Promise<Secret>
  renew(rejected: Secret): Promise<Secret | undefined>
}

/** A CLI token. It is not refreshed. */
export class CliToken implements Credentials {
  readonly #token: Secret

  constructor(token: Secret) {
    this.#token = token
  }

  async token(): Promise<Secret> {
    return this.#token
  }

  async renew(): Promise<undefined> {
    return undefined
  }
}

/** A session in a file, which several processes can share. */
export class Session implements Credentials {
  readonly #url: string
  readonly #file: SessionFile
  #renewing: Promise<Secret> | undefined

  constructor(url: string, file: SessionFile) {
    this.#url = url
    this.#file = file
  }

  async token(): Promise<Secret> {
    const kept = await this.#read()
    return isFresh(kept) ? kept.accessToken : await this.renew(kept.accessToken)
  }

  /** Calls of this process that need a new token at the same time share one refresh. */
  async renew(rejected: Secret): Promise<Secret> {
    this.#renewing ??= this.#file.locked(() => this.#refresh(rejected)).finally(() => { this.#renewing = undefined })
    return await this.#renewing
  }

  async #refresh(rejected: Secret): Promise<Secret> {
    const kept = await this.#read()
    if (!kept.accessToken.equals(rejected) && isFresh(kept)) return kept.accessToken
    const response = await postForm(`${this.#url}/oauth/token`, {
      grant_type: 'refresh_token',
      client_id: kept.clientId,
      refresh_token: kept.refreshToken.expose(),
    })
    if (response.ok) {
      const fresh = tokensOf(this.#url, kept.clientId, await response.json())
      await this.#file.write(fresh)
      return fresh.accessToken
    }
    const error = await errorOf(response)
    if (error.error !== 'invalid_grant') throw error
    if (error.reason === 'sso_again') throw new SignInRequired('sign in through your company again')
    await this.#file.delete()
    throw new SessionEnded(error.reason)
  }

  async #read(): Promise<Tokens> {
    const kept = await this.#file.read()
    if (!kept) throw new NotSignedIn('not signed in')
    if (kept.issuer !== this.#url) throw new NotSignedIn(`the session is of ${kept.issuer}`)
    return kept
  }
}

/** The tokens of a token response that has just arrived. */
export function tokensOf(issuer: string, clientId: string, body: unknown): Tokens {
  const { access_token, refresh_token, expires_in } = body as Record<string, unknown>
  if (typeof access_token !== 'string' || typeof refresh_token !== 'string' || typeof expires_in !== 'number') {
    throw new TypeError('the token response is incomplete')
  }
  const lifetime = Math.min(Math.max(expires_in, 0), MAX_LIFETIME_SECONDS)
  const expiresAt = Date.now() + lifetime * 1000
  return { issuer, clientId, accessToken: new Secret(access_token), expiresAt, refreshToken: new Secret(refresh_token) }
}

function isFresh(tokens: Tokens): boolean {
  return Date.now() + EXPIRY_MARGIN_MS < tokens.expiresAt
}
